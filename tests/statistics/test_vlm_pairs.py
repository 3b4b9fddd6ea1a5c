"""Differences of F of two explainers: a literal loop as oracle, what means share with them, what is null."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from pipeline.errors import AssayError
from pipeline.seeds import generator
from pipeline.statistics.paired import holm
from pipeline.statistics.vlm_explainers import MEANS, explainer_table
from pipeline.statistics.vlm_pairs import COLUMNS, pair_table

FACTORS = ["vlm", "questions"]
NAN = float("nan")


def scores(seed: int = 0, n: int = 20, names: tuple[str, ...] = ("a", "b", "random"), vlm: str = "m"):
    rng = np.random.default_rng(seed)
    own = rng.random(n)
    rows = [
        {"vlm": vlm, "questions": "q", "explainer": name, "sample_id": f"s{s:03d}", "f": value, "flags": ""}
        for k, name in enumerate(names)
        for s, value in enumerate(own + 0.2 * k + 0.3 * rng.standard_normal(n))
    ]
    return pd.DataFrame(rows).assign(**dict.fromkeys(MEANS.values(), 0.5))


def test_differences_intervals_and_tests_are_those_of_a_literal_loop() -> None:
    table = scores(n=17)
    table.loc[[2, 3, 20], "f"] = NAN
    found = pair_table(table, FACTORS, confidence=0.9, n_bootstrap=300)
    f = table.pivot_table(index="sample_id", columns="explainer", values="f", dropna=False)
    rng = generator(0, "vlm explainers", "cell", "m", "q")
    draws = [np.repeat(np.arange(17), rng.multinomial(17, np.full(17, 1 / 17))) for _ in range(300)]
    t, ranks = [], []
    for (a, b), (_, row) in zip(combinations(["a", "b", "random"], 2), found.iterrows(), strict=True):
        differences = f[a] - f[b]
        means = [differences.iloc[samples].mean() for samples in draws]
        assert (row["explainer_a"], row["explainer_b"]) == (a, b)
        assert row["difference"] == pytest.approx(differences.mean())
        assert (row["low"], row["high"]) == pytest.approx(tuple(np.quantile(means, [0.05, 0.95])))
        assert row["n_samples"] == differences.notna().sum() < 17
        t.append(stats.ttest_1samp(differences.dropna(), 0).pvalue)
        ranks.append(stats.wilcoxon(differences.dropna(), zero_method="pratt").pvalue)
    for name, p in (("p_t", t), ("p_wilcoxon", ranks)):
        assert found[name].to_numpy(float) == pytest.approx(p)
        assert found[f"{name}_holm"].to_numpy(float) == pytest.approx(holm(np.array(p)))


def test_what_is_over_random_is_the_pair_with_random_to_the_last_bit() -> None:
    table = pd.concat([scores(1), scores(2, vlm="m2")])
    pairs = pair_table(table, FACTORS, n_bootstrap=50).query("explainer_b == 'random'")
    means = explainer_table(table, FACTORS, n_bootstrap=50).query("explainer != 'random'")
    keys = ["level", *FACTORS, "explainer"]
    both = means.merge(pairs.rename(columns={"explainer_a": "explainer"}), on=keys, suffixes=("", "_pair"))
    assert len(both) == len(pairs) == 6
    for one, other in (("over_random", "difference"), ("over_random_low", "low_pair")):
        np.testing.assert_array_equal(both[one].to_numpy(float), both[other].to_numpy(float))


def test_overall_differences_are_means_over_cells_and_a_shared_sample_counts_once_in_the_test() -> None:
    one = scores(1)
    table = pd.concat([one, one.assign(vlm="m2")])
    found = pair_table(table, FACTORS, n_bootstrap=50)
    alone = pair_table(one, FACTORS, n_bootstrap=50)
    overall = found[found["level"] == "overall"]
    assert list(found["level"]) == ["overall"] * 3 + ["cell"] * 6
    np.testing.assert_allclose(overall["difference"].to_numpy(float), alone["difference"].to_numpy(float))
    for name in ("p_t", "p_wilcoxon"):
        np.testing.assert_allclose(overall[name].to_numpy(float), alone[name].to_numpy(float))
    assert list(overall["n_samples"]) == [40] * 3
    assert list(overall["n_tested"]) == list(alone["n_tested"]) == [20] * 3


def of_cells(*cells: tuple[str, np.ndarray]) -> pd.DataFrame:
    """Scores of a and b whose differences are those given, a cell a question set."""
    parts = []
    for questions, differences in cells:
        n = len(differences)
        own = scores(names=("a", "b"), n=n).assign(questions=questions)
        parts.append(own.assign(f=np.concatenate([differences, np.zeros(n)])))
    return pd.concat(parts)


def overall_row(table: pd.DataFrame) -> dict[str, float]:
    found = pair_table(table, FACTORS, n_bootstrap=2)
    (row,) = found[found["level"] == "overall"].to_dict("records")
    return row


def test_the_overall_t_test_of_two_question_sets_is_welchs() -> None:
    rng = np.random.default_rng(5)
    one, other = rng.normal(-0.1, 0.2, 200), rng.normal(0.3, 0.4, 20)
    row = overall_row(of_cells(("q", one), ("r", other)))
    assert row["difference"] == pytest.approx((one.mean() + other.mean()) / 2)
    assert row["p_t"] == pytest.approx(stats.ttest_ind(one, -other, equal_var=False).pvalue)
    assert row["n_tested"] == row["n_samples"] == 220


def test_the_overall_t_test_of_cells_that_share_some_samples_is_that_of_a_literal_loop() -> None:
    one, other = scores(1, 12, names=("a", "b")), scores(2, 9, names=("a", "b"), vlm="m2")
    third = scores(3, 7, names=("a", "b")).assign(questions="r")
    table = pd.concat([one, other, third], ignore_index=True)
    table.loc[[2, 30], "f"] = NAN
    wide = table.pivot_table(
        index=["vlm", "questions", "sample_id"], columns="explainer", values="f", dropna=False
    )
    cells = [rows.dropna() for _, rows in (wide["a"] - wide["b"]).groupby(["vlm", "questions"])]
    cells = [rows for rows in cells if len(rows)]
    sums: dict[tuple[str, str], float] = {}
    for rows in cells:
        for (_, questions, sample), difference in rows.items():
            own = (difference - rows.mean()) / (len(cells) * len(rows))
            sums[questions, sample] = sums.get((questions, sample), 0.0) + own
    variances, free = [], []
    for pool in ("q", "r"):
        squares = [value**2 for (questions, _), value in sums.items() if questions == pool]
        free.append(len(squares) - 1)
        variances.append(sum(squares) * len(squares) / free[-1])
    df = sum(variances) ** 2 / sum(v**2 / f for v, f in zip(variances, free, strict=True))
    t = np.mean([rows.mean() for rows in cells]) / np.sqrt(sum(variances))
    row = overall_row(table)
    assert row["p_t"] == pytest.approx(2 * stats.t.sf(abs(t), df))
    assert row["n_tested"] == len(sums) < row["n_samples"]


def test_the_overall_t_test_holds_its_level_where_cells_differ_in_size() -> None:
    rng = np.random.default_rng(6)
    cells = [(("q", rng.normal(-0.05, 0.3, 200)), ("r", rng.normal(0.05, 0.3, 20))) for _ in range(150)]
    rejected = np.mean([overall_row(of_cells(*each))["p_t"] < 0.05 for each in cells])
    assert rejected <= stats.binom.ppf(0.999, 150, 0.05) / 150


def test_two_explainers_without_a_common_sample_have_no_difference() -> None:
    table = scores(names=("a", "b"))
    table.loc[(table["explainer"] == "a") == (table["sample_id"] < "s010"), "f"] = NAN
    (row,) = pair_table(table, FACTORS).to_dict("records")
    assert row["n_samples"] == 0
    assert all(np.isnan(row[name]) for name in ("difference", "low", "high", "p_t", "p_wilcoxon_holm"))


def test_equal_differences_are_the_limit_of_a_test() -> None:
    (row,) = pair_table(of_cells(("q", np.full(3, 0.25))), FACTORS).to_dict("records")
    assert (row["difference"], row["p_t"]) == (0.25, 0)


def test_one_common_sample_has_a_difference_and_no_interval() -> None:
    (row,) = pair_table(scores(n=1, names=("a", "b")), FACTORS).to_dict("records")
    assert (row["n_samples"], row["p_wilcoxon"]) == (1, 1.0)
    assert np.isnan([row["low"], row["high"], row["p_t"]]).all()


@pytest.mark.parametrize("table", [scores(names=("a",)), scores().head(0)], ids=["one explainer", "no row"])
def test_without_two_explainers_there_is_a_table_without_rows(table: pd.DataFrame) -> None:
    found = pair_table(table, FACTORS)
    assert list(found.columns) == ["level", *FACTORS, *COLUMNS]
    assert found.empty


def test_equal_explainers_differ_by_nothing() -> None:
    table = pd.concat([scores(names=("a",)), scores(names=("a",)).assign(explainer="b")])
    (row,) = pair_table(table, FACTORS).to_dict("records")
    assert [row[name] for name in ("difference", "low", "high", "p_t", "p_wilcoxon")] == [0, 0, 0, 1, 1]


def test_bad_scores_are_named() -> None:
    with pytest.raises(AssayError, match="scores lack the columns f"):
        pair_table(scores().drop(columns="f"), FACTORS)
