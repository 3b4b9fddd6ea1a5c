"""Rankings by metric, their agreement, F beside SII, and what is asked of the model."""

from itertools import permutations, product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal
from scipy import stats

from pipeline.errors import AssayError
from pipeline.statistics.vlm_agreement import agreement_table
from pipeline.statistics.vlm_explainers import MEANS, explainer_table
from pipeline.statistics.vlm_metrics import METRICS, SCORED, rankings_table, tau_table
from pipeline.statistics.vlm_states import state_table
from pipeline.synergy.sii import sii

FACTORS = ["vlm", "questions"]
NAN = float("nan")


def scored(n: int = 6, names: str = "abcd", seed: int = 0, **cell: str) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    keys = list(product([f"s{s}" for s in range(n)], names))
    table = pd.DataFrame(keys, columns=["sample_id", "explainer"]).assign(vlm="m", questions="q", flags="")
    for name in sorted({*SCORED, *MEANS.values()}):
        table[name] = rng.random(len(table))
    table["dividend"] = table["sample_id"].map(
        dict(zip(table["sample_id"].unique(), rng.random(n), strict=True))
    )
    counts = {"n_states": 50, "n_tie_states": 0, "n_insertion_states": 0}
    return table.assign(**counts, **cell)


def exact(scores: pd.DataFrame, seed: int = 9) -> pd.DataFrame:
    noise = np.random.default_rng(seed).standard_normal(len(scores))
    keys = [*FACTORS, "explainer", "sample_id"]
    more = np.random.default_rng(seed + 1).standard_normal(len(scores))
    return scores[keys].assign(sii=scores["f"] + 0.2 * noise, sii_top=scores["f"] + 0.1 * more, n_states=1024)


NO_SII = exact(scored()).iloc[:0]


def ranks(table: pd.DataFrame, metric: str) -> list[str]:
    return list(table.loc[table["metric"] == metric].sort_values("rank")["explainer"])


def test_a_fast_fall_and_a_high_value_are_best() -> None:
    table = scored()
    values = table["explainer"].map({"a": 0.3, "b": 0.1, "c": 0.4, "d": 0.2})
    for metric in SCORED:
        table[metric] = values
    found = rankings_table(table, exact(table).assign(sii=values, sii_top=values), FACTORS)
    for metric in METRICS:
        best_first = list("bdac") if metric.endswith("auc_del") else list("cadb")
        assert ranks(found, metric) == best_first
        assert list(found.loc[found["metric"] == metric, "rank"]) == [1, 2, 3, 4]
    deletion = found[(found["metric"] == "image_auc_del") & (found["explainer"] == "b")]
    assert list(deletion["value"]) == pytest.approx([0.1])


def test_a_metric_ranks_by_the_samples_that_all_its_explainers_have() -> None:
    table = scored()
    table.loc[(table["explainer"] == "b") & (table["sample_id"] == "s2"), "f"] = NAN
    table.loc[table["sample_id"].isin(["s0", "s1"]), "pointing"] = NAN
    table.loc[table["explainer"] == "d", "pointing"] = NAN
    found = rankings_table(table, NO_SII, FACTORS)
    f = table[table["sample_id"] != "s2"].groupby("explainer")["f"].mean()
    own = found[found["metric"] == "f"].set_index("explainer")
    assert dict(own["value"]) == pytest.approx(dict(f))
    assert set(own["n_samples"]) == {5}
    pointing = found[found["metric"] == "pointing"]
    assert (set(pointing["explainer"]), set(pointing["n_samples"])) == (set("abc"), {4})


def test_the_ranking_by_f_is_that_of_the_explainers_table() -> None:
    table = pd.concat([scored(vlm="m1"), scored(seed=1, vlm="m2")])
    table.loc[::5, "f"] = NAN
    found = rankings_table(table, NO_SII, FACTORS)
    explainers = explainer_table(table, FACTORS, n_bootstrap=5)
    own = found.loc[found["metric"] == "f", [*FACTORS, "explainer", "value", "rank"]]
    cells = explainers.loc[explainers["level"] == "cell", [*FACTORS, "explainer", "mean_common", "rank"]]
    assert_frame_equal(
        own.reset_index(drop=True),
        cells.set_axis(own.columns, axis=1).reset_index(drop=True),
        check_dtype=False,
    )


def test_metrics_without_two_explainers_on_common_samples_have_no_row() -> None:
    table = scored(n=2)
    table["iou"] = NAN
    table.loc[table["explainer"] != "a", "image_srg"] = NAN
    table.loc[table["sample_id"] == "s0", "text_srg"] = np.where(table["explainer"].iloc[:4] == "a", 1, NAN)
    table.loc[(table["sample_id"] == "s1") & (table["explainer"] == "a"), "text_srg"] = NAN
    found = rankings_table(table, NO_SII, FACTORS)
    assert list(dict.fromkeys(found["metric"])) == ["f", "image_auc_del", "text_auc_del", "pointing"]
    none = rankings_table(table.iloc[:0], NO_SII, FACTORS)
    assert list(none.columns) == list(found.columns) and none.empty
    taus = tau_table(table, NO_SII, FACTORS)
    assert {*taus["left"], *taus["right"]} == {*found["metric"]}
    assert tau_table(table.iloc[:0], NO_SII, FACTORS).empty


def test_equal_values_are_ranked_by_name_and_are_ties_for_tau() -> None:
    table = scored(n=1)
    table["f"] = [0.1 + 0.2, 0.3, 0.5, 0.1]
    table["iou"] = [0.4, 0.3, 0.2, 0.1]
    rankings = rankings_table(table, NO_SII, FACTORS)
    assert ranks(rankings, "f") == ["c", "a", "b", "d"]
    (row,) = (
        r for _, r in tau_table(table, NO_SII, FACTORS).iterrows() if (r["left"], r["right"]) == ("f", "iou")
    )
    expected = stats.kendalltau([3, 3, 5, 1], [4, 3, 2, 1])
    assert (row["tau"], row["p"], row["exact"]) == (
        pytest.approx(expected.statistic), pytest.approx(expected.pvalue), False,
    )  # fmt: skip


def test_tau_is_of_quality_and_its_p_counts_permutations() -> None:
    table = scored(n=1)
    table["f"] = [4.0, 3.0, 2.0, 1.0]
    table["image_auc_del"] = [0.1, 0.2, 0.4, 0.3]
    table["text_auc_del"] = [4.0, 3.0, 2.0, 1.0]
    taus = tau_table(table, NO_SII, FACTORS).set_index(["left", "right"])
    found = taus.loc[("f", "image_auc_del")]
    all_taus = [stats.kendalltau(range(4), order).statistic for order in permutations(range(4))]
    assert found["tau"] == pytest.approx(4 / 6)
    assert found["p"] == pytest.approx(np.mean(np.abs(all_taus) >= 4 / 6 - 1e-12))
    assert (found["n"], found["exact"]) == (4, True)
    assert taus.loc[("f", "text_auc_del"), "tau"] == pytest.approx(-1)


def test_tau_is_over_the_explainers_that_both_metrics_have() -> None:
    table = scored()
    found = tau_table(table, exact(table)[lambda t: t["explainer"] < "d"], FACTORS)
    exacts = found["right"].isin(["sii", "sii_top"])
    assert set(found.loc[exacts, "n"]) == {3}
    assert set(found.loc[~exacts, "n"]) == {4}
    one = table.assign(pointing=np.where(table["explainer"] < "c", table["pointing"], NAN))
    few = tau_table(one, exact(table)[lambda t: t["explainer"] > "a"], FACTORS).set_index(["left", "right"])
    assert few.loc[("pointing", "sii"), "n"] == 1 and np.isnan(few.loc[("pointing", "sii"), "tau"])


def test_f_beside_sii_is_f_on_the_samples_and_explainers_of_sii() -> None:
    """Over all six samples F ranks a first; over the two with SII it ranks it last, as SII does."""
    table = scored(names="abcde")
    few = table["sample_id"].isin(["s0", "s1"])
    table["f"] = np.where(few, 1, -1) * table["explainer"].map(dict(zip("abcde", range(5), strict=True)))
    given = exact(table).assign(sii=table["f"], sii_top=-table["f"])[few & (table["explainer"] != "e")]
    assert ranks(rankings_table(table, given, FACTORS), "f") == list("abcde")
    found = tau_table(table, given, FACTORS).set_index(["left", "right"])
    assert found.loc[("f", "sii"), ["tau", "n", "n_samples"]].tolist() == [pytest.approx(1), 4, 2]
    assert found.loc[("f", "sii_top"), ["tau", "n", "n_samples"]].tolist() == [pytest.approx(-1), 4, 2]
    assert found.loc[("f", "iou"), ["n", "n_samples"]].tolist() == [5, 6]


def test_two_metrics_are_compared_on_the_samples_that_all_shared_explainers_have_in_both() -> None:
    table = scored(n=8, names="abcde")
    table.loc[(table["explainer"] == "b") & (table["sample_id"] == "s2"), "f"] = NAN
    table.loc[table["sample_id"].isin(["s0", "s1"]), "pointing"] = NAN
    table.loc[table["explainer"] == "d", "pointing"] = NAN
    row = tau_table(table, NO_SII, FACTORS).set_index(["left", "right"]).loc[("f", "pointing")]
    own = table[~table["sample_id"].isin(["s0", "s1", "s2"]) & (table["explainer"] != "d")]
    means = own.groupby("explainer")[["f", "pointing"]].mean()
    assert row["tau"] == pytest.approx(stats.kendalltau(means["f"], means["pointing"]).statistic)
    assert row[["n", "n_samples"]].tolist() == [4, 5]


@pytest.mark.filterwarnings("error")
def test_metrics_that_share_no_sample_have_no_tau() -> None:
    table = scored()
    table["iou"] = table["iou"].where(table["sample_id"] > "s2")
    table["pointing"] = table["pointing"].where(table["sample_id"] < "s2")
    row = tau_table(table, NO_SII, FACTORS).set_index(["left", "right"]).loc[("pointing", "iou")]
    assert np.isnan([row["tau"], row["p"]]).all()
    assert row[["n", "n_samples"]].tolist() == [0, 0]


@settings(max_examples=5, deadline=None)
@given(st.randoms(use_true_random=False), st.permutations("abcd"))
def test_neither_order_nor_names_change_a_tau(random: Any, names: list[str]) -> None:
    table = pd.concat([scored(vlm="m1"), scored(seed=1, vlm="m2")], ignore_index=True)
    order = list(range(len(table)))
    random.shuffle(order)
    new = dict(zip("abcd", names, strict=True))
    other = table.iloc[order].assign(explainer=lambda t: t["explainer"].map(new))
    one, two = (tau_table(t, exact(t).iloc[:0], FACTORS) for t in (table, other))
    assert_frame_equal(one, two)


def test_agreement_is_scipys_where_both_are_there() -> None:
    table = scored(n=8)
    table.loc[(table["explainer"] == "b") & (table["sample_id"] == "s3"), ["f", "dividend"]] = NAN
    few = exact(table)[lambda t: (t["explainer"] != "d") & (t["sample_id"] != "s7")]
    found = agreement_table(table, few, FACTORS, n_bootstrap=10)
    assert set(found["n_samples"]) == {7} and set(found["n_explainers"]) == {3}
    both = table.merge(few, on=[*FACTORS, "explainer", "sample_id"]).dropna()
    top = [stats.spearmanr(own["f"], own["sii_top"]).statistic for _, own in both.groupby("sample_id")]
    rows = found.set_index(["level", "left", "right", "measure"])
    pooled = stats.spearmanr(both["f"], both["sii"]).statistic
    across = [stats.kendalltau(own["f"], own["sii"]).statistic for _, own in both.groupby("explainer")]
    within = [stats.spearmanr(own["f"], own["sii"]).statistic for _, own in both.groupby("sample_id")]
    alone = [stats.spearmanr(own["dividend"], own["sii"]).statistic for _, own in both.groupby("explainer")]
    assert rows.loc[("pooled", "f", "sii", "spearman"), "value"] == pytest.approx(pooled)
    assert rows.loc[("across", "f", "sii", "kendall"), "value"] == pytest.approx(np.mean(across))
    assert rows.loc[("within", "f", "sii", "spearman"), "value"] == pytest.approx(np.mean(within))
    assert rows.loc[("across", "dividend", "sii", "spearman"), "value"] == pytest.approx(np.mean(alone))
    assert rows.loc[("within", "f", "sii_top", "spearman"), "value"] == pytest.approx(np.mean(top))
    assert rows.index.is_unique
    assert [rows.loc[(level, "f", "sii", "kendall"), "n"] for level in ("pooled", "across", "within")] == [
        1,
        3,
        7,
    ]


def test_agreement_is_by_cell_and_cells_without_sii_have_no_row() -> None:
    one, two, three = (scored(seed=s, vlm=f"m{s}") for s in range(3))
    table = pd.concat([one, two, three.assign(f=NAN)])
    found = agreement_table(
        table, exact(table).assign(sii=lambda t: t["sii"].fillna(0.5))[lambda t: t["vlm"] != "m1"], FACTORS
    )
    assert set(found["vlm"]) == {"m0"}
    assert_frame_equal(found, agreement_table(one, exact(table)[: len(one)], FACTORS))
    none = agreement_table(table, NO_SII, FACTORS)
    assert none.empty and list(none.columns) == list(found.columns)


def test_one_sample_or_one_explainer_has_only_some_levels() -> None:
    one_sample = scored(n=1)
    rows = agreement_table(one_sample, exact(one_sample), FACTORS, n_bootstrap=5).set_index(
        ["level", "left", "right"]
    )
    assert rows.loc[("within", "f", "sii"), "value"].notna().all()
    assert rows.loc[("across", "f", "sii"), "value"].isna().all()
    one_explainer = scored(names="a")
    rows = agreement_table(one_explainer, exact(one_explainer), FACTORS, n_bootstrap=5).set_index(
        ["level", "left", "right"]
    )
    assert rows.loc[("within", "f", "sii"), "value"].isna().all()
    assert rows.loc[("across", "f", "sii"), "value"].notna().all()


def shares(table: pd.DataFrame) -> pd.DataFrame:
    found = agreement_table(table, exact(table), FACTORS, n_bootstrap=200)
    return found[found["measure"] == "share_within"].set_index("left")


def test_the_share_of_variance_within_samples_is_that_of_a_literal_decomposition() -> None:
    table = scored(n=7)
    table.loc[(table["explainer"] == "b") & (table["sample_id"] == "s3"), "f"] = NAN
    own = table.dropna(subset=["f"])
    found = shares(table).loc["f"]
    within = sum(((g["f"] - g["f"].mean()) ** 2).sum() for _, g in own.groupby("sample_id"))
    assert found["value"] == pytest.approx(within / ((own["f"] - own["f"].mean()) ** 2).sum())
    assert found["low"] < found["value"] < found["high"]
    assert (found["level"], found["right"], found["n"], found["n_undefined"]) == ("within", "f", 7, 0)


def test_a_share_is_0_where_explainers_are_alike_and_1_where_samples_are() -> None:
    table = scored(n=6)
    assert shares(table.assign(f=table["dividend"])).loc["f", "value"] == pytest.approx(0)
    same = table.assign(f=table["explainer"].map({"a": 0.1, "b": 0.2, "c": 0.4, "d": 0.8}))
    assert list(shares(same).loc["f", ["value", "low", "high"]]) == pytest.approx([1, 1, 1])


def test_values_that_know_nothing_of_their_sample_have_the_share_that_is_said() -> None:
    table = scored(n=2, names="ab")
    drawn = [shares(table.assign(f=list(order))).loc["f", "value"] for order in permutations([0, 1, 3, 8])]
    assert np.mean(drawn) == pytest.approx((4 - 2) / (4 - 1))


@pytest.mark.filterwarnings("error")
def test_a_share_without_two_samples_or_two_explainers_or_any_variance_is_null() -> None:
    for table in (scored(n=1), scored(names="a"), scored().assign(f=0.1)):
        found = shares(table).loc["f"]
        assert np.isnan([found["value"], found["low"], found["high"]]).all()
        assert (found["n"], found["n_undefined"]) == (0, table["sample_id"].nunique())


def test_the_sum_over_all_pairs_of_groups_is_d_and_the_top_pair_is_not() -> None:
    """Why: of a game of interactions of one patch with one token, however the players are grouped."""
    rng = np.random.default_rng(0)
    weights, alone = rng.standard_normal((6, 4)), rng.standard_normal((2, 6))

    def game(patches: Any, tokens: Any) -> Any:
        both = np.einsum("sm,mn,sn->s", patches, weights, tokens)
        return both + patches @ alone[0] + tokens @ alone[1, :4]

    found = [sii(game, rng.permutation(6), rng.permutation(4), 3, 2) for _ in range(4)]
    assert [each.total for each in found] == pytest.approx([weights.sum()] * 4)
    assert np.ptp([each.top for each in found]) > 0.5


def test_states_are_sums_over_explainers_and_means_over_samples() -> None:
    table = scored(n=2, names="ab").assign(n_states=[50, 90, 60, 100], n_tie_states=[0, 40, 0, 50])
    table["n_insertion_states"] = [14, 14, 14, 18]
    (row,) = state_table(table, exact(table).iloc[[0, 1, 2]], {("m", "q"): 120.5}, FACTORS, 11).to_dict(
        "records"
    )
    assert row == {
        "vlm": "m", "questions": "q", "n_samples": 2, "n_explainers": 2, "together": 120.5, "alone": 150.0,
        "ties": 45.0, "insertion": 30.0, "published": 136.0, "sii": 1024.0, "sii_all": 1536.0,
    }  # fmt: skip


def test_states_count_what_was_scored_and_say_what_is_unknown() -> None:
    table = pd.concat([scored(n=2, names="ab"), scored(n=2, names="ab", vlm="z").assign(f=NAN)])
    table.loc[table.index[0], "f"] = NAN
    (row,) = state_table(table.iloc[:4], NO_SII, {}, FACTORS, 11).to_dict("records")
    assert (row["n_samples"], row["alone"], row["published"]) == (2, 75, 102)
    assert np.isnan([row["together"], row["sii"], row["sii_all"]]).all()
    assert set(state_table(table.iloc[1:], NO_SII, {}, FACTORS, 11)["vlm"]) == {"m"}
    assert state_table(table.iloc[:0], NO_SII, {}, FACTORS, 11).empty


def test_a_table_that_lacks_a_column_is_named() -> None:
    table = scored()
    with pytest.raises(AssayError, match="sii lack the columns sii;"):
        rankings_table(table, exact(table).drop(columns="sii"), FACTORS)
    with pytest.raises(AssayError, match="scores lack the columns n_tie_states;"):
        state_table(table.drop(columns="n_tie_states"), NO_SII, {}, FACTORS, 11)
    with pytest.raises(AssayError, match=r"sii: .*explainer=a sample_id=s0 is there twice"):
        agreement_table(table, pd.concat([exact(table)] * 2), FACTORS)
