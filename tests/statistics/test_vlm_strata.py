"""F by the model's answer: who is named, who is "other", and that an answer's mean is its samples'."""

import numpy as np
import pandas as pd
import pytest

from pipeline.seeds import generator
from pipeline.statistics.vlm_strata import COLUMNS, strata_table

FACTORS = ["vlm", "questions"]


def answered(answers: list[str], seed: int = 0, explainers: str = "ab", **cell: str) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    rows = [
        {"vlm": "m", "questions": "q", "explainer": name, "sample_id": f"s{s:03d}", "answer": answer}
        | {"f": rng.random(), "dividend": rng.random()}
        for name in explainers
        for s, answer in enumerate(answers)
    ]
    return pd.DataFrame(rows).assign(**cell)


def named(table: pd.DataFrame, level: str = "cell") -> list[str]:
    return list(dict.fromkeys(table.loc[table["level"] == level, "answer"]))


def test_the_frequent_answers_are_named_by_frequency_then_name_and_the_rest_are_other() -> None:
    answers = ["b"] * 3 + [" a"] * 2 + ["a\n"] + ["c", "d", "d"]
    found = strata_table(answered(answers), FACTORS)
    assert named(found) == ["a", "b", "d", "other"]
    assert list(found["n_samples"]) == [3, 3, 3, 3, 2, 2, 1, 1]
    assert list(found["explainer"]) == ["a", "b"] * 4
    many = strata_table(answered([name for name in "gfedcbah" for _ in range(2)]), FACTORS)
    assert named(many) == [*"abcdef", "other"]
    assert set(many.loc[many["answer"] == "other", "n_samples"]) == {4}


def test_an_answer_that_reads_other_is_pooled() -> None:
    found = strata_table(answered(["other"] * 5 + ["yes"] * 2 + ["no"]), FACTORS)
    assert named(found) == ["yes", "other"]
    assert set(found.loc[found["answer"] == "other", "n_samples"]) == {6}


def test_a_stratum_is_the_mean_and_a_literal_bootstrap_of_its_own_samples() -> None:
    table = answered(["yes", "no"] * 6)
    found = strata_table(table, FACTORS, confidence=0.8, n_bootstrap=200)
    rng = generator(0, "vlm strata", "cell", "m", "q", "no")
    draws = [np.repeat(np.arange(6), rng.multinomial(6, np.full(6, 1 / 6))) for _ in range(200)]
    for name in "ab":
        own = table[(table["answer"] == "no") & (table["explainer"] == name)]
        (row,) = (r for _, r in found.iterrows() if (r["answer"], r["explainer"]) == ("no", name))
        f = own["f"].to_numpy()
        low, high = np.quantile([f[draw].mean() for draw in draws], [0.1, 0.9])
        assert (row["mean_f"], row["mean_dividend"]) == pytest.approx((f.mean(), own["dividend"].mean()))
        assert (row["low"], row["high"]) == pytest.approx((low, high))


def test_strata_hold_every_sample_with_f_once() -> None:
    table = answered(list("aabbbcdee"))
    table.loc[table["sample_id"] == "s003", "f"] = np.nan
    table.loc[(table["sample_id"] == "s004") & (table["explainer"] == "a"), "f"] = np.nan
    found = strata_table(table, FACTORS)
    assert dict(found.groupby("explainer")["n_samples"].sum()) == {"a": 7, "b": 8}
    for name, own in found.groupby("explainer"):
        mean = (own["mean_f"] * own["n_samples"]).sum() / own["n_samples"].sum()
        assert mean == pytest.approx(table.loc[table["explainer"] == name, "f"].mean())


def test_one_sample_is_a_mean_without_an_interval() -> None:
    found = strata_table(answered(["yes"]), FACTORS)
    assert named(found) == ["other"]
    assert found["mean_f"].notna().all() and found[["low", "high"]].isna().all(axis=None)


def test_overall_an_answer_is_the_mean_over_the_cells_that_have_two_samples_with_it() -> None:
    one = answered(["yes"] * 3 + ["no"], vlm="m1")
    two = answered(["yes"] * 2 + ["no"] * 4, seed=1, vlm="m2")
    found = strata_table(pd.concat([one, two]), FACTORS)
    assert named(found, "overall") == ["yes", "no", "other"]
    overall = found[found["level"] == "overall"].set_index(["answer", "explainer"])
    assert set(overall[FACTORS].to_numpy().ravel()) == {""}
    assert [overall.loc[(answer, "a"), "n_samples"] for answer in ("yes", "no", "other")] == [5, 4, 1]
    cells = found[(found["level"] == "cell") & (found["explainer"] == "a") & (found["answer"] == "yes")]
    assert overall.loc[("yes", "a"), "mean_f"] == pytest.approx(cells["mean_f"].mean())
    assert np.isnan(overall.loc[("other", "a"), "low"])


def test_a_cell_without_any_f_has_no_stratum() -> None:
    table = pd.concat([answered(["yes"] * 2), answered(["yes"] * 2, vlm="z").assign(f=np.nan)])
    found = strata_table(table, FACTORS)
    assert list(found["level"]) == ["overall"] * 2 + ["cell"] * 2
    assert set(found["vlm"]) == {"", "m"}
    assert list(found.columns) == ["level", *FACTORS, *COLUMNS]
