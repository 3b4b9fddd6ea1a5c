"""Mean F of explainers: literal loops as oracles, what cells share, and what degenerate input gives."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from pandas.testing import assert_frame_equal
from scipy import stats

from pipeline.errors import AssayError
from pipeline.seeds import generator
from pipeline.statistics.paired import holm
from pipeline.statistics.vlm_explainers import COLUMNS, MEANS, explainer_table
from pipeline.statistics.vlm_strata import strata_table

FACTORS = ["vlm", "questions"]
NAN = float("nan")
CELL = {"vlm": "m", "questions": "q"}


def score(explainer: str, sample: int, f: float, **others: Any) -> dict[str, Any]:
    measures = {name: NAN if np.isnan(f) else 0.5 for name in MEANS.values()}
    row = {"explainer": explainer, "sample_id": f"s{sample:03d}", "f": f, "answer": "yes", "flags": ""}
    return CELL | row | measures | others


def one_cell(**fs: list[float]) -> pd.DataFrame:
    return pd.DataFrame([score(name, s, f) for name, values in fs.items() for s, f in enumerate(values)])


def drawn(
    seed: int = 0, n: int = 30, names: tuple[str, ...] = ("a", "b", "random"), **cell: str
) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    own = rng.random(n)
    values = {name: list(own + 0.2 * k + 0.3 * rng.standard_normal(n)) for k, name in enumerate(names)}
    return one_cell(**values).assign(**cell)


def by_name(table: pd.DataFrame, level: str = "cell") -> dict[str, pd.Series]:
    rows = table[table["level"] == level]
    assert rows["explainer"].is_unique
    return {str(row["explainer"]): row for _, row in rows.iterrows()}


def wide(table: pd.DataFrame) -> pd.DataFrame:
    return table.pivot_table(index="sample_id", columns="explainer", values="f", dropna=False)


def literal_draws(n: int, n_bootstrap: int, *names: object) -> list[NDArray[np.int64]]:
    """The samples of each draw, as numbers that repeat."""
    rng = generator(0, *names)
    return [np.repeat(np.arange(n), rng.multinomial(n, np.full(n, 1 / n))) for _ in range(n_bootstrap)]


def test_intervals_and_first_shares_are_those_of_a_literal_loop() -> None:
    table = drawn(n=17)
    table.loc[[2, 3, 20], "f"] = NAN
    found = by_name(explainer_table(table, FACTORS, confidence=0.9, n_bootstrap=300))
    f = wide(table)
    common = f.dropna().index
    means, over, wins = [], [], []
    for samples in literal_draws(17, 300, "vlm explainers", "cell", "m", "q"):
        draw = f.iloc[samples]
        means.append(draw.mean())
        over.append(draw.sub(draw["random"], axis=0).mean())
        wins.append(draw[draw.index.isin(common)].mean().idxmax())
    for name, row in found.items():
        low, high = np.quantile([draw[name] for draw in means], [0.05, 0.95])
        assert (row["low"], row["high"]) == pytest.approx((low, high))
        assert row["p_first"] == pytest.approx(np.mean([won == name for won in wins]))
        assert row["mean_f"] == pytest.approx(f[name].mean())
        assert row["mean_common"] == pytest.approx(f.loc[common, name].mean())
        if name != "random":
            low, high = np.quantile([draw[name] for draw in over], [0.05, 0.95])
            assert (row["over_random_low"], row["over_random_high"]) == pytest.approx((low, high))
            assert row["over_random"] == pytest.approx((f[name] - f["random"]).mean())


def test_the_overall_interval_draws_a_shared_sample_for_all_cells_at_once() -> None:
    one, other = drawn(1, 9, vlm="m1"), drawn(2, 9, vlm="m2")
    third = drawn(3, 5, vlm="m1", questions="r")
    other = other[~other["sample_id"].isin(["s000", "s004"])]
    table = pd.concat([one, other, third])
    found = by_name(explainer_table(table, FACTORS, n_bootstrap=60), "overall")
    rng = generator(0, "vlm explainers", "overall", "", "")
    shared = rng.multinomial(9, np.full(9, 1 / 9), 60)
    alone = rng.multinomial(5, np.full(5, 1 / 5), 60)
    means = []
    for nine, five in zip(shared, alone, strict=True):
        drawn_cells = [
            np.repeat(wide(one).to_numpy(), nine, axis=0),
            np.repeat(
                wide(other).to_numpy(), [count for s, count in enumerate(nine) if s not in (0, 4)], axis=0
            ),
            np.repeat(wide(third).to_numpy(), five, axis=0),
        ]
        means.append(np.mean([cell.mean(axis=0) for cell in drawn_cells], axis=0))
    lows, highs = np.quantile(means, [0.025, 0.975], axis=0)
    for k, name in enumerate(("a", "b", "random")):
        assert (found[name]["low"], found[name]["high"]) == pytest.approx((lows[k], highs[k]))
        own = [wide(cell)[name].mean() for cell in (one, other, third)]
        assert found[name]["mean_f"] == pytest.approx(np.mean(own))
    assert found["a"]["n_samples"] == 9 + 7 + 5


def test_a_second_model_that_says_the_same_makes_no_interval_narrower_and_other_questions_do() -> None:
    table = drawn(n=40)

    def width(second: dict[str, str]) -> float:
        both = pd.concat([table, table.assign(**second)])
        row = by_name(explainer_table(both, FACTORS), "overall")["a"]
        return float(row["high"] - row["low"])

    alone = by_name(explainer_table(table, FACTORS))["a"]
    assert width({"vlm": "other"}) == pytest.approx(alone["high"] - alone["low"], rel=0.1)
    narrow = pytest.approx((alone["high"] - alone["low"]) / np.sqrt(2), rel=0.1)
    assert width({"questions": "other"}) == narrow


def test_the_interval_is_near_the_normal_one_where_there_are_many_samples() -> None:
    table = drawn(n=200)
    row = by_name(explainer_table(table, FACTORS, n_bootstrap=4000))["b"]
    f = wide(table)["b"]
    half = 1.96 * f.std() / np.sqrt(200)
    assert (row["low"], row["high"]) == pytest.approx((f.mean() - half, f.mean() + half), abs=0.1 * half)


def test_the_test_over_random_is_scipys_on_the_samples_that_both_have() -> None:
    table = drawn(n=14)
    table.loc[[0, 15], "f"] = NAN
    found = by_name(explainer_table(table, FACTORS, n_bootstrap=2))
    f = wide(table)
    p = [stats.wilcoxon((f[name] - f["random"]).dropna(), zero_method="pratt").pvalue for name in "ab"]
    assert [found[name]["p_random"] for name in "ab"] == pytest.approx(list(holm(np.array(p))))
    assert np.isnan(found["random"][["over_random", "over_random_low", "p_random"]].astype(float)).all()


def test_a_sample_that_two_models_answered_is_one_difference_of_the_overall_test() -> None:
    one, other = drawn(1, 8, vlm="m1"), drawn(2, 8, vlm="m2")
    found = by_name(explainer_table(pd.concat([one, other]), FACTORS, n_bootstrap=2), "overall")
    mean = (wide(one) + wide(other)) / 2
    p = [stats.wilcoxon(mean[name] - mean["random"], zero_method="pratt").pvalue for name in "ab"]
    assert [found[name]["p_random"] for name in "ab"] == pytest.approx(list(holm(np.array(p))))


def test_an_explainer_gains_no_rank_by_failing_where_f_is_low() -> None:
    table = one_cell(a=[0.9, 0.8, 0.1, 0.1], b=[0.85, 0.7, NAN, NAN])
    found = by_name(explainer_table(table, FACTORS))
    assert (found["a"]["mean_f"], found["b"]["mean_f"]) == pytest.approx((0.475, 0.775))
    assert (found["a"]["rank"], found["b"]["rank"]) == (1, 2)
    assert (found["a"]["p_first"], found["b"]["p_first"]) == (1, 0)
    assert (found["b"]["n_samples"], found["b"]["n_missing"], found["b"]["n_common"]) == (2, 2, 2)
    assert (found["a"]["flags"], found["b"]["flags"]) == ("common_samples_only", "missing: 2 of 4")


def test_a_row_that_is_not_there_counts_as_missing() -> None:
    table = one_cell(a=[0.9, 0.8, 0.1], b=[0.85, NAN, 0.2])
    without = explainer_table(table[table["f"].notna()], FACTORS)
    assert_frame_equal(without, explainer_table(table, FACTORS))


def test_an_explainer_without_any_f_has_no_rank_and_leaves_the_others_alone() -> None:
    table = one_cell(a=[0.4, 0.5, 0.3], z=[NAN] * 3, random=[0.1, 0.1, 0.3])
    table.loc[table["explainer"] == "z", "flags"] = "failed: out of memory; 3 GiB: too few"
    found = explainer_table(table, FACTORS)
    assert list(found["explainer"]) == ["a", "random", "z"]
    assert list(found["rank"].fillna(-1)) == [1, 2, -1]
    z = by_name(found)["z"]
    assert z["flags"] == "failed: 3 of 3;missing: 3 of 3;no_score"
    assert (z["n_samples"], z["n_missing"], z["n_common"]) == (0, 3, 0)
    assert z[["mean_f", "low", "over_random", "p_random", "p_first", "mean_common"]].isna().all()
    alone = explainer_table(table[table["explainer"] != "z"], FACTORS)
    assert_frame_equal(found.iloc[:2], alone, check_dtype=False)


def test_without_a_common_sample_nothing_is_ranked() -> None:
    found = explainer_table(one_cell(b=[0.1, 0.2, NAN, NAN], a=[NAN, NAN, 0.3, 0.4]), FACTORS)
    assert list(found["explainer"]) == ["a", "b"]
    assert found[["rank", "p_first", "mean_common"]].isna().all(axis=None)
    assert list(found["mean_f"]) == pytest.approx([0.35, 0.15])
    assert set(found["flags"]) == {"missing: 2 of 4;no_common_sample"}


def test_one_sample_has_a_rank_and_no_interval() -> None:
    found = by_name(explainer_table(one_cell(a=[0.3], random=[0.1]), FACTORS))
    a = found["a"]
    assert (a["rank"], a["mean_f"], a["over_random"], a["p_random"]) == pytest.approx((1, 0.3, 0.2, 1))
    assert a[["low", "high", "over_random_low", "over_random_high", "p_first"]].isna().all()
    assert a["flags"] == "one_sample"


def test_equal_scores_are_an_interval_without_width_and_share_the_first_place_by_name() -> None:
    found = by_name(explainer_table(one_cell(b=[0.2] * 4, a=[0.2] * 4, random=[0.1] * 4), FACTORS))
    assert [found[name]["rank"] for name in ("a", "b", "random")] == [1, 2, 3]
    assert [found[name]["p_first"] for name in ("a", "b", "random")] == [0.5, 0.5, 0]
    assert (found["a"]["low"], found["a"]["high"]) == pytest.approx((0.2, 0.2))
    assert (found["a"]["over_random_low"], found["a"]["over_random_high"]) == pytest.approx((0.1, 0.1))
    assert (found["a"]["flags"], found["random"]["flags"]) == ("constant;tied", "constant")


def test_without_random_nothing_is_compared_and_one_explainer_is_first() -> None:
    (row,) = by_name(explainer_table(one_cell(a=[0.1, 0.4]), FACTORS)).values()
    assert row[["over_random", "over_random_low", "over_random_high", "p_random"]].isna().all()
    assert (row["rank"], row["p_first"], row["flags"]) == (1, 1, "")
    variant = by_name(explainer_table(one_cell(a=[0.1, 0.4], **{"random (seed=1)": [0.0, 0.1]}), FACTORS))
    assert np.isnan(variant["a"]["over_random"])


def test_measures_are_means_over_the_samples_that_have_them() -> None:
    table = one_cell(a=[0.1, 0.2, 0.6, 0.5], b=[0.1, 0.2, 0.3, 0.4])
    table["dividend"] = [0.4, 0.8, 0.0, -0.2] * 2
    table["pointing"] = [1, 0, NAN, NAN] * 2
    table["pointing_chance"] = [0.1, 0.3, 0.9, 0.9] * 2
    table["iou"] = [0.2, 0.6, NAN, NAN] * 2
    table["image_srg"] = NAN
    a = by_name(explainer_table(table, FACTORS))["a"]
    assert (a["pointing"], a["pointing_chance"], a["iou"], a["n_masks"]) == pytest.approx((0.5, 0.2, 0.4, 2))
    assert (a["mean_dividend"], a["ratio_of_means"]) == pytest.approx((0.25, 0.35 / 0.25))
    assert np.isnan(a["image_srg"])


def test_a_mean_dividend_of_rounding_gives_no_ratio() -> None:
    table = one_cell(a=[0.1, 0.2]).assign(dividend=[4e-7, -3e-7])
    assert np.isnan(by_name(explainer_table(table, FACTORS))["a"]["ratio_of_means"])


def test_flags_are_counted_by_name() -> None:
    table = one_cell(a=[0.1, 0.2, 0.3])
    table["flags"] = ["constant_patches;constant_tokens", None, "constant_patches"]
    found = by_name(explainer_table(table, FACTORS))
    assert found["a"]["flags"] == "constant_patches: 2 of 3;constant_tokens: 1 of 3"


def test_overall_rows_are_means_over_cells_and_sums_of_counts() -> None:
    table = pd.concat([drawn(1, 5, questions="q1"), drawn(2, 20, questions="q2")])
    table.loc[:, "pointing"] = np.where(table["questions"] == "q1", NAN, 0.25)
    table.loc[:, "dividend"] = np.where(table["questions"] == "q1", 0.2, 1.0)
    found = explainer_table(table, FACTORS, n_bootstrap=20)
    assert list(found["level"]) == ["overall"] * 3 + ["cell"] * 6
    assert set(found.loc[found["level"] == "overall", FACTORS].to_numpy().ravel()) == {""}
    first, second = (by_name(found[found["questions"] == q]) for q in ("q1", "q2"))
    for name, row in by_name(found, "overall").items():
        for value in (
            "mean_f",
            "mean_common",
            "mean_dividend",
            *([] if name == "random" else ["over_random"]),
        ):
            assert row[value] == pytest.approx((first[name][value] + second[name][value]) / 2)
        assert row["ratio_of_means"] == pytest.approx(row["mean_f"] / 0.6)
        assert (row["pointing"], row["n_masks"], row["n_samples"], row["n_common"]) == (0.25, 20, 25, 25)


def test_an_explainer_that_a_cell_lacks_is_ranked_where_all_are() -> None:
    hard = one_cell(a=[0.1, 0.2], b=[0.15, 0.25]).assign(questions="hard")
    easy = one_cell(a=[0.8, 0.9]).assign(questions="easy")
    found = by_name(explainer_table(pd.concat([hard, easy]), FACTORS), "overall")
    assert (found["a"]["mean_f"], found["b"]["mean_f"]) == pytest.approx((0.5, 0.2))
    assert (found["a"]["mean_common"], found["b"]["mean_common"]) == pytest.approx((0.15, 0.2))
    assert (found["b"]["rank"], found["b"]["n_missing"], found["b"]["flags"]) == (
        1,
        0,
        "absent_cells: 1 of 2",
    )
    assert (found["a"]["rank"], found["a"]["flags"]) == (2, "common_samples_only")


def test_a_cell_with_one_sample_gives_no_overall_interval() -> None:
    table = pd.concat([drawn(1, 9, questions="q1"), drawn(2, 1, questions="q2")])
    row = by_name(explainer_table(table, FACTORS), "overall")["a"]
    assert row[["low", "high", "p_first"]].isna().all()
    assert (row["rank"] > 0, row["flags"]) == (True, "one_sample")


def test_no_rows_are_tables_without_rows() -> None:
    empty = drawn().iloc[:0]
    assert list(explainer_table(empty, FACTORS).columns) == ["level", *FACTORS, *COLUMNS]
    assert explainer_table(empty, FACTORS).empty and strata_table(empty, FACTORS).empty


@settings(max_examples=8, deadline=None)
@given(st.randoms(use_true_random=False))
@pytest.mark.parametrize("make", [explainer_table, strata_table])
def test_the_order_of_the_rows_changes_nothing(make: Callable[..., pd.DataFrame], random: Any) -> None:
    table = pd.concat([drawn(0, 6, vlm="m1"), drawn(1, 5, vlm="m2")], ignore_index=True)
    table.loc[::7, "f"] = NAN
    table["answer"] = np.where(table["sample_id"] < "s003", "yes", "no")
    order = list(range(len(table)))
    random.shuffle(order)
    one, other = (make(rows, FACTORS, n_bootstrap=20) for rows in (table, table.iloc[order]))
    assert_frame_equal(one, other, check_exact=True)


@settings(max_examples=10, deadline=None)
@given(st.permutations(["a", "b", "c", "random"]), st.integers(0, 5))
def test_other_names_for_explainers_move_their_rows_and_no_number(names: list[str], seed: int) -> None:
    old = ("a", "b", "c", "random")
    table = drawn(seed, 7, names=old)
    table.loc[::9, "f"] = NAN
    renamed = dict(zip(old, names, strict=True))
    found = by_name(explainer_table(table, FACTORS, n_bootstrap=20))
    other = by_name(
        explainer_table(table.assign(explainer=table["explainer"].map(renamed)), FACTORS, n_bootstrap=20)
    )
    kept = ["rank", "mean_f", "low", "high", "p_first", "n_missing", "mean_common", "flags"]
    for name in old:
        assert list(found[name][kept]) == pytest.approx(list(other[renamed[name]][kept]), nan_ok=True)


def test_another_cell_leaves_a_cells_rows_alone() -> None:
    table = drawn(1, vlm="m1")
    both = explainer_table(pd.concat([table, drawn(2, vlm="m2")]), FACTORS)
    own = both[(both["level"] == "cell") & (both["vlm"] == "m1")].reset_index(drop=True)
    assert_frame_equal(own, explainer_table(table, FACTORS))


def spoiled(column: str, value: object) -> Callable[[pd.DataFrame], pd.DataFrame]:
    return lambda table: table.assign(**{column: [value, *table[column].iloc[1:]]})


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda table: table.drop(columns=["f", "iou"]), "scores lack the columns f, iou; they have vlm"),
        (spoiled("questions", None), "'questions' is empty in row 0"),
        (spoiled("f", np.inf), "'f' of vlm=m questions=q explainer=a sample_id=s000 is infinite"),
        (spoiled("sample_id", "s001"), "explainer=a sample_id=s001 is there twice"),
    ],
)
def test_bad_scores_are_named(spoil: Callable[[pd.DataFrame], pd.DataFrame], message: str) -> None:
    with pytest.raises(AssayError, match=message):
        explainer_table(spoil(drawn()), FACTORS)
