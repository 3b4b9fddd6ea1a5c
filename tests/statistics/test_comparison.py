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
from pipeline.seeds import generator
from pipeline.statistics import comparison
from pipeline.statistics.comparison import compare, first_shares, holm, mean_interval, paired_t, signed_rank

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


def test_the_mean_has_scipys_t_interval() -> None:
    values = np.array([0.1, 0.4, 0.2, 0.7, 0.3])
    found = mean_interval(values, 0.9)
    expected = stats.ttest_1samp(values, 0).confidence_interval(0.9)
    assert (found.n, found.flag) == (5, "")
    assert found.mean == pytest.approx(0.34)
    assert found.sd == pytest.approx(np.sqrt(np.sum((values - 0.34) ** 2) / 4))
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


def test_two_units_give_the_textbook_interval() -> None:
    found = mean_interval(np.array([0.0, 2.0]), 0.95)
    assert (found.low, found.high) == pytest.approx((1 - 12.706204736, 1 + 12.706204736))


@pytest.mark.parametrize(
    ("values", "mean", "low", "flag"),
    [
        ([], np.nan, np.nan, "no_unit"),
        ([0.3], 0.3, np.nan, "one_unit"),
        ([0.3, 0.3, 0.3], 0.3, 0.3, "constant"),
    ],
)
def test_a_degenerate_mean_is_defined_and_flagged(
    values: list[float], mean: float, low: float, flag: str
) -> None:
    found = mean_interval(np.array(values))
    assert found.flag == flag
    np.testing.assert_allclose([found.mean, found.low, found.high], [mean, low, low])


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


def test_signed_rank_is_the_share_of_sign_flips_at_least_as_extreme() -> None:
    differences = np.array([0.5, -0.2, 0.0, 0.3, 0.3, -0.1, 0.0, 0.8])
    ranks = stats.rankdata(np.abs(differences)) * (differences != 0)
    middle = ranks.sum() / 2
    seen = abs(ranks[differences > 0].sum() - middle)
    flips = [abs(ranks[np.array(signs)].sum() - middle) for signs in product([True, False], repeat=8)]
    assert signed_rank(differences) == pytest.approx(np.mean(np.array(flips) >= seen - 1e-9))


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


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("differences", "p_t", "p_rank"),
    [
        ([], np.nan, np.nan),
        ([0.2], np.nan, 1),
        ([0.0], np.nan, 1),
        ([0.0] * 60, 1, 1),
        ([-0.5, -0.5], 0, 0.5),
    ],
)
def test_degenerate_tests_are_defined_without_a_warning(
    differences: list[float], p_t: float, p_rank: float
) -> None:
    values = np.array(differences)
    np.testing.assert_equal([paired_t(values)[1], signed_rank(values)], [p_t, p_rank])


def literal_holm(p: list[float]) -> list[float]:
    known = sorted((value, i) for i, value in enumerate(p) if not np.isnan(value))
    out = [np.nan] * len(p)
    for position, (_, i) in enumerate(known):
        out[i] = min(1, max((len(known) - j) * known[j][0] for j in range(position + 1)))
    return out


def test_holm_gives_the_known_answer() -> None:
    found = holm(np.array([0.01, 0.04, np.nan, 0.03, 0.005]))
    np.testing.assert_allclose(found, [0.03, 0.06, np.nan, 0.06, 0.02])


@given(st.lists(st.one_of(st.floats(0, 1), st.just(np.nan)), max_size=12))
def test_holm_is_its_literal_definition(p: list[float]) -> None:
    np.testing.assert_allclose(holm(np.array(p, dtype=float)), literal_holm(p))


def test_holm_counts_the_pairs_of_one_cell_only() -> None:
    found = compare(sweep(), factors=FACTORS).pairs
    for _, rows in found.groupby(["level", *FACTORS]):
        assert len(rows) == 3
        np.testing.assert_allclose(rows["p_t_holm"], literal_holm(list(rows["p_t"])))
        np.testing.assert_allclose(rows["p_wilcoxon_holm"], literal_holm(list(rows["p_wilcoxon"])))


def test_first_shares_are_those_of_a_literal_loop() -> None:
    rng = np.random.default_rng(5)
    values = rng.standard_normal((9, 3))
    values[rng.random((9, 3)) < 0.3] = np.nan
    draws = np.random.default_rng(7)
    wins = np.zeros(3)
    for _ in range(200):
        sample = values[draws.integers(9, size=9)]
        means = [np.nanmean(column) if np.any(~np.isnan(column)) else -np.inf for column in sample.T]
        wins[int(np.argmax(means))] += 1
    np.testing.assert_allclose(first_shares(values, 200, np.random.default_rng(7)), wins / 200)


def test_first_shares_do_not_depend_on_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(1).standard_normal((7, 4))
    whole = first_shares(values, 101, generator(3))
    monkeypatch.setattr(comparison, "BLOCK", 1)
    np.testing.assert_array_equal(first_shares(values, 101, generator(3)), whole)


def test_methods_with_the_same_scores_share_the_first_place() -> None:
    found = compare(one_cell(a=[0.1, 0.5], b=[0.1, 0.5], c=[0.0, 0.0]), factors=FACTORS).methods
    cell = found[found["level"] == "cell"]
    assert list(cell["method"]) == ["a", "b", "c"]
    assert list(cell["p_first"]) == [0.5, 0.5, 0]
    assert list(cell["flags"]) == ["tied", "tied", "constant"]


@given(st.integers(1, 8), st.integers(1, 4), st.integers(0, 1000))
def test_first_shares_add_up_to_one(n: int, n_methods: int, seed: int) -> None:
    values = np.random.default_rng(seed).integers(-2, 3, size=(n, n_methods)) / 4
    assert np.sum(first_shares(values, 50, np.random.default_rng(seed))) == pytest.approx(1)


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
    assert (a["n_units"], a["n_missing"], a["n_absent"]) == (2, 1, 1)
    assert (b["n_units"], b["n_missing"], b["n_absent"]) == (2, 2, 0)
    assert a["flags"] == "missing_scores;absent_units"
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
