"""The comparison of methods: closed forms, scipy as the oracle, and what degenerate input gives."""

from collections.abc import Callable
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal
from scipy import stats

from pipeline.errors import AssayError
from pipeline.statistics.comparison import compare
from pipeline.statistics.paired import holm

FACTORS = ("model", "layer", "scoring")


def score(method: str, unit: int, estimate: float, **cell: str) -> dict[str, object]:
    known = {"model": "m", "layer": "l", "scoring": "crowd"} | cell
    row = {"method": method, "unit": unit, "description": f"text {unit}", "estimate": estimate}
    return known | row | {"n_images": 10, "n_ratings": 30, "flags": ""}


def one_cell(**estimates: list[float]) -> pd.DataFrame:
    return pd.DataFrame(
        [score(m, unit, value) for m, values in estimates.items() for unit, value in enumerate(values)]
    )


def sweep(seed: int = 0, n_units: int = 12) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    rows = []
    for layer, scoring, (k, method) in product(("l1", "l2"), ("crowd", "oracle"), enumerate("abc")):
        for unit in range(n_units):
            estimate = 0.15 * k + 0.2 * rng.standard_normal()
            rows.append(score(method, unit, estimate, layer=layer, scoring=scoring))
    return pd.DataFrame(rows)


def row_of(table: pd.DataFrame, **where: object) -> pd.Series:
    kept = table
    for name, value in where.items():
        kept = kept[kept[name] == value]
    assert len(kept) == 1
    return kept.iloc[0]


def test_the_paired_tests_are_scipys() -> None:
    a, b = np.array([0.3, 0.1, 0.5, 0.9, 0.2, 0.4]), np.array([0.1, 0.2, 0.1, 0.4, 0.25, 0.1])
    pair = compare(one_cell(a=list(a), b=list(b)), factors=FACTORS, confidence=0.8).pairs.iloc[0]
    expected = stats.ttest_rel(a, b)
    interval = expected.confidence_interval(0.8)
    assert (pair["method_a"], pair["method_b"], pair["n_units"]) == ("a", "b", 6)
    assert pair["difference"] == pytest.approx(np.mean(a - b))
    assert (pair["t"], pair["p_t"]) == pytest.approx((expected.statistic, expected.pvalue))
    assert (pair["low"], pair["high"]) == pytest.approx((interval.low, interval.high))
    assert pair["p_wilcoxon"] == pytest.approx(stats.wilcoxon(a, b, zero_method="pratt").pvalue)


def test_differences_that_are_all_zero_say_that_nothing_differs() -> None:
    pair = compare(one_cell(a=[0.1, 0.2, 0.3], b=[0.1, 0.2, 0.3]), factors=FACTORS).pairs.iloc[0]
    assert (pair["t"], pair["p_t"], pair["p_wilcoxon"]) == (0, 1, 1)
    assert (pair["low"], pair["high"]) == (0, 0)
    assert pair["flags"] == "constant;all_zero"


def test_a_difference_that_is_the_same_everywhere_is_the_limit_and_flagged() -> None:
    pair = compare(one_cell(a=[0.3, 0.2, 0.1], b=[0.2, 0.1, 0.0]), factors=FACTORS).pairs.iloc[0]
    assert (pair["t"], pair["p_t"], pair["p_wilcoxon"]) == (np.inf, 0, 0.25)
    assert (pair["low"], pair["high"]) == pytest.approx((0.1, 0.1))
    assert pair["flags"] == "constant"


def test_holm_counts_the_pairs_of_one_cell_only() -> None:
    found = compare(sweep(), factors=FACTORS).pairs
    for _, rows in found.groupby(["level", *FACTORS]):
        assert len(rows) == 3
        np.testing.assert_allclose(rows["p_t_holm"], holm(rows["p_t"].to_numpy()))
        np.testing.assert_allclose(rows["p_wilcoxon_holm"], holm(rows["p_wilcoxon"].to_numpy()))


def test_methods_with_the_same_scores_share_the_first_place() -> None:
    found = compare(one_cell(a=[0.1, 0.5], b=[0.1, 0.5], c=[0.0, 0.0]), factors=FACTORS).methods
    cell = found[found["level"] == "cell"]
    assert list(cell["method"]) == ["a", "b", "c"]
    assert list(cell["p_first"]) == [0.5, 0.5, 0]
    assert list(cell["flags"]) == ["tied", "tied", "constant"]


def test_a_better_method_is_first_and_the_overall_row_pools_the_layers() -> None:
    table = sweep()
    found = compare(table, factors=FACTORS).methods
    best = row_of(found, level="overall", scoring="crowd", rank=1)
    expected = table[(table["scoring"] == "crowd") & (table["method"] == "c")]["estimate"]
    assert (best["method"], best["model"], best["layer"], best["n_units"]) == ("c", "all", "all", 24)
    assert best["mean"] == pytest.approx(expected.mean())
    assert best["p_first"] > 0.9
    assert best["n_ratings"] == 24 * 30


def test_the_same_units_under_two_protocols_are_never_pooled() -> None:
    table = sweep()
    table["sampler.n_inputs"] = np.where(table["layer"] == "l1", "20", "180")
    found = compare(table, factors=(*FACTORS, "sampler.n_inputs")).methods
    overall = found[found["level"] == "overall"]
    assert set(overall["n_units"]) == {12}
    assert set(zip(overall["scoring"], overall["sampler.n_inputs"], strict=True)) == set(
        product(("crowd", "oracle"), ("20", "180"))
    )


def test_missing_scores_and_absent_units_are_counted() -> None:
    table = one_cell(a=[0.1, 0.2, np.nan, 0.4], b=[0.3, np.nan, np.nan, 0.1])
    table = table[~((table["method"] == "a") & (table["unit"] == 3))]
    found = compare(table, factors=FACTORS)
    a, b = (row_of(found.methods, level="cell", method=name) for name in "ab")
    assert (a["n_units"], a["n_missing"], a["n_absent"], a["n_common"]) == (2, 1, 1, 1)
    assert (b["n_units"], b["n_missing"], b["n_absent"], b["n_common"]) == (2, 2, 0, 1)
    assert a["flags"] == "missing_scores;absent_units;common_units_only"
    pair = row_of(found.pairs, level="cell")
    assert (pair["n_units"], pair["n_missing"], pair["flags"]) == (1, 3, "one_unit;missing_units")
    assert pair["difference"] == pytest.approx(-0.2)


def test_a_method_without_any_score_ranks_last() -> None:
    found = compare(one_cell(a=[np.nan, np.nan], b=[-1.0, -0.5]), factors=FACTORS)
    last = row_of(found.methods, level="cell", rank=2)
    assert (last["method"], last["flags"]) == ("a", "no_unit;missing_scores")
    assert np.isnan(last["p_first"])
    assert row_of(found.methods, level="cell", rank=1)["p_first"] == 1
    assert row_of(found.pairs, level="cell")["flags"] == "no_unit;missing_units"


def test_a_method_that_abstains_gains_no_rank_by_it() -> None:
    table = one_cell(a=[0.5, 0.5, 0.1, 0.1], b=[0.45, 0.4, np.nan, np.nan])
    found = compare(table, factors=FACTORS).methods
    a, b = (row_of(found, level="overall", method=name) for name in "ab")
    assert (a["rank"], b["rank"]) == (1, 2)
    assert (a["p_first"], b["p_first"]) == (1, 0)
    assert (a["n_common"], a["mean_common"], b["mean_common"]) == (2, 0.5, pytest.approx(0.425))
    assert (a["mean"], b["mean"]) == pytest.approx((0.3, 0.425))
    assert (a["flags"], b["flags"]) == ("common_units_only", "missing_scores")


def test_methods_that_share_no_unit_have_no_rank() -> None:
    found = compare(one_cell(a=[0.5, 0.4, np.nan], b=[np.nan, np.nan, 0.1]), factors=FACTORS).methods
    cell = found[found["level"] == "cell"]
    assert list(cell["method"]) == ["a", "b"]
    assert cell[["rank", "mean_common", "p_first"]].isna().all(axis=None)
    assert list(cell["n_common"]) == [0, 0]
    assert list(cell["flags"]) == ["missing_scores;no_common_unit", "one_unit;missing_scores;no_common_unit"]


@pytest.mark.parametrize("name", ["unit.seed", "sampler.seed", "dataset.split_seed"])
def test_a_second_seed_with_the_same_scores_changes_no_overall_row(name: str) -> None:
    table = one_cell(a=[0.1, 0.4, 0.2, 0.7, 0.3], b=[0.2, 0.3, 0.4, 0.1, 0.6])
    one = compare(table.assign(**{name: "0"}), factors=(*FACTORS, name))
    both = pd.concat([table.assign(**{name: "0"}), table.assign(**{name: "1"})])
    two = compare(both, factors=(*FACTORS, name))
    for kind in ("methods", "pairs"):
        first, second = (getattr(c, kind) for c in (one, two))
        first, second = (
            t[t["level"] == "overall"].drop(columns="n_ratings", errors="ignore") for t in (first, second)
        )
        assert_frame_equal(first, second)
    assert list(two.methods[two.methods["level"] == "cell"][name]) == ["0", "0", "1", "1"]


def test_replicates_are_averaged_before_units_are_counted() -> None:
    first, second = one_cell(a=[0.1, 0.4, np.nan, np.nan]), one_cell(a=[0.3, np.nan, 0.9, np.nan])
    table = pd.concat([first.assign(**{"crowd.seed": "0"}), second.assign(**{"crowd.seed": "1"})])
    found = row_of(compare(table, factors=(*FACTORS, "crowd.seed")).methods, level="overall")
    expected = stats.ttest_1samp([0.2, 0.4, 0.9], 0).confidence_interval(0.95)
    assert (found["n_units"], found["n_missing"], found["n_ratings"]) == (3, 1, 240)
    assert (found["low"], found["high"]) == pytest.approx((expected.low, expected.high))
    assert found["flags"] == "missing_scores;missing_replicates"


def test_replicates_with_other_texts_are_one_cluster_by_the_set_of_their_texts() -> None:
    tables = [one_cell(a=[0.1, 0.4, 0.2, 0.9]) for _ in "01"]
    for seed, texts in enumerate((["x", "y", "z", "w"], ["y", "x", "z", "v"])):
        tables[seed] = tables[seed].assign(**{"explainer.seed": str(seed), "description": texts})
    found = compare(pd.concat(tables), factors=(*FACTORS, "explainer.seed")).methods
    assert list(found[found["level"] == "overall"]["n_texts"]) == [3]


def test_an_interval_is_clustered_by_text() -> None:
    table = one_cell(a=[0.1, 0.2, 0.7, 0.8, 0.4])
    table["description"] = ["x", "x", "y", "y", "z"]
    found = row_of(compare(table, factors=FACTORS).methods, level="cell")
    error = np.sqrt(3 / 2 * (0.58**2 + 0.62**2 + 0.04**2)) / 5
    half = stats.t.ppf(0.975, 2) * error
    assert found["n_texts"] == 3
    assert (found["low"], found["high"]) == pytest.approx((0.44 - half, 0.44 + half))


def test_what_decided_the_scores_is_in_the_methods_table() -> None:
    table = one_cell(a=[0.1, 0.2, 0.3], b=[0.3, 0.1, 0.4])
    table["flags"] = ["no_interval;prior_decides", "prior_decides", "tie", "top_images_only", "", "tie"]
    found = compare(table, factors=FACTORS).methods
    a, b = (row_of(found, level="overall", method=name) for name in "ab")
    assert (a["n_prior_decides"], b["n_prior_decides"]) == (2, 0)
    assert (a["flags"], b["flags"]) == ("", "top_images_only")


def test_errors_near_a_truth_of_zero_are_told_apart_from_the_rest() -> None:
    truth, crowd = [0.001, 0.5, -0.2, 0.0, 0.05], [0.101, 0.4, -0.3, 0.04, 0.02]
    rows = [score("a", u, value) for u, value in enumerate(crowd)]
    rows += [score("a", u, value, scoring="oracle") for u, value in enumerate(truth)]
    found = row_of(compare(pd.DataFrame(rows), factors=FACTORS).errors, level="cell", method="a")
    assert (found["n_pairs"], found["n_zero"], found["n_large"]) == (4, 1, 3)
    assert found["mae"] == pytest.approx((0.1 + 0.1 + 0.1 + 0.04 + 0.03) / 5)
    assert found["bias"] == pytest.approx((0.1 - 0.1 - 0.1 + 0.04 - 0.03) / 5)
    assert found["rce_median"] == pytest.approx((0.5 + 0.6) / 2)
    assert found["rce_large"] == pytest.approx((0.2 + 0.5 + 0.6) / 3)
    assert found["rce"] == pytest.approx((100 + 0.2 + 0.5 + 0.6) / 4)
    strict = compare(pd.DataFrame(rows), factors=FACTORS, rce_min_truth=0.6).errors
    none = row_of(strict, level="cell", method="a")
    assert (none["n_large"], none["flags"]) == (0, "zero_truth;no_large_truth")
    assert np.isnan(none["rce_large"])


def test_errors_of_replicates_are_not_averaged_away() -> None:
    rows = [score("a", 0, 0.4, **{"crowd.seed": "0"}), score("a", 0, 0.6, **{"crowd.seed": "1"})]
    rows += [score("a", 0, 0.5, scoring="oracle", **{"crowd.seed": "0"})]
    found = compare(pd.DataFrame(rows), factors=(*FACTORS, "crowd.seed")).errors
    both = row_of(found, level="overall", method="a")
    assert (both["n_pairs"], both["mae"], both["bias"]) == (2, pytest.approx(0.1), pytest.approx(0))


def test_rce_is_the_mean_relative_error_against_the_oracle() -> None:
    truth, crowd = [0.5, 0.2, 0.0, np.nan, -0.4], [0.4, 0.3, 0.1, 0.2, np.nan]
    rows = [score("a", u, value) for u, value in enumerate(crowd)]
    rows += [score("a", u, value, scoring="oracle") for u, value in enumerate(truth)]
    rows += [score("b", 0, 0.1), score("b", 0, 0.2, scoring="oracle")]
    found = compare(pd.DataFrame(rows), factors=FACTORS).errors
    assert set(found["scoring"]) == {"crowd"}
    a = row_of(found, level="cell", method="a")
    assert a["rce"] == pytest.approx((0.1 / 0.5 + 0.1 / 0.2) / 2)
    assert (a["n_pairs"], a["n_zero"], a["n_missing"]) == (2, 1, 2)
    assert a["flags"] == "zero_truth;missing_scores"
    assert row_of(found, level="overall", method="all")["rce"] == pytest.approx((0.2 + 0.5 + 0.5) / 3)


def test_one_truth_serves_every_sampler() -> None:
    rows = [score("a", 0, 0.4, sampler="mgis"), score("a", 0, 0.1, sampler="uniform")]
    rows += [score("a", 0, 0.5, scoring="oracle", sampler="mgis")]
    found = compare(pd.DataFrame(rows), factors=(*FACTORS, "sampler")).errors
    assert row_of(found, level="cell", method="a", sampler="mgis")["rce"] == pytest.approx(0.2)
    assert row_of(found, level="cell", method="a", sampler="uniform")["rce"] == pytest.approx(0.8)


def test_another_description_has_another_truth() -> None:
    rows = [score("a", 0, 0.4), score("a", 0, 0.5, scoring="oracle") | {"description": "other"}]
    assert compare(pd.DataFrame(rows), factors=FACTORS).errors.empty


def test_truths_that_contradict_each_other_are_an_error() -> None:
    rows = [score("a", 0, 0.4, sampler="mgis"), score("a", 0, 0.5, scoring="oracle", sampler="mgis")]
    rows += [score("a", 0, 0.6, scoring="oracle", sampler="uniform")]
    with pytest.raises(AssayError, match=r"two oracle scores differ for .*method=a unit=0"):
        compare(pd.DataFrame(rows), factors=(*FACTORS, "sampler"))


def test_without_an_oracle_or_the_factor_scoring_there_are_no_errors() -> None:
    assert compare(one_cell(a=[0.1, 0.2]), factors=FACTORS).errors.empty
    assert compare(one_cell(a=[0.1, 0.2]), factors=("model",)).errors.empty
    assert list(compare(one_cell(a=[0.1]), factors=()).methods["level"]) == ["overall", "cell"]


@settings(max_examples=15, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(0, 3))
def test_the_order_of_the_rows_changes_nothing(random: object, seed: int) -> None:
    table = sweep(seed, n_units=5)
    table.loc[::7, "estimate"] = np.nan
    order = list(range(len(table)))
    random.shuffle(order)  # type: ignore[attr-defined]
    one = compare(table, factors=FACTORS, n_bootstrap=20)
    other = compare(table.iloc[order], factors=FACTORS, n_bootstrap=20)
    for name in ("methods", "pairs", "errors"):
        assert_frame_equal(getattr(one, name), getattr(other, name), check_exact=True)


def test_adding_a_cell_leaves_the_other_cells_rows_alone() -> None:
    table = sweep()
    both = compare(table, factors=FACTORS)
    one = compare(table[table["layer"] == "l1"], factors=FACTORS)
    for name in ("methods", "pairs", "errors"):
        cells = [
            t[(t["level"] == "cell") & (t["layer"] == "l1")]
            for t in (getattr(both, name), getattr(one, name))
        ]
        assert_frame_equal(*(cell.reset_index(drop=True) for cell in cells))


def drop_estimate(table: pd.DataFrame) -> pd.DataFrame:
    return table.drop(columns="estimate")


def empty_factor(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(layer=["l", np.nan])


def infinite(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(estimate=[0.1, np.inf])


def doubled(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(unit=3)


def no_rows(table: pd.DataFrame) -> pd.DataFrame:
    return table.iloc[:0]


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (drop_estimate, "lack the columns estimate; they have model"),
        (empty_factor, "'layer' is empty in row 1"),
        (infinite, "method=a unit=1 is infinite"),
        (doubled, "method=a unit=3 is there twice"),
        (no_rows, "no row"),
    ],
)
def test_bad_scores_are_named(spoil: Callable[[pd.DataFrame], pd.DataFrame], message: str) -> None:
    with pytest.raises(AssayError, match=message):
        compare(spoil(one_cell(a=[0.1, 0.2])), factors=FACTORS)
