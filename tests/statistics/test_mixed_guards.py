"""What a fit says where a table has little to say: a sentence, null numbers, never a crash."""

import numpy as np
import pandas as pd
import pytest

from pipeline.errors import AssayError
from pipeline.statistics import Fit, fit
from tests.statistics.test_mixed_tables import scores

FORMULA = "f ~ explainer + (1|sample) + (1|vlm)"
TESTED = ["std_error", "df", "t", "p", "low", "high"]
pytestmark = pytest.mark.filterwarnings("error")


def said(found: Fit, words: str) -> bool:
    return any(words in note for note in found.notes)


def test_rows_without_a_score_are_counted_by_method_and_left_out() -> None:
    table = scores()
    table.loc[[0, 4, 8, 1], "f"] = [np.nan, np.nan, np.inf, np.nan]
    found, without = fit(table, FORMULA), fit(table.drop(index=[0, 4, 8, 1]), FORMULA)
    assert (found.n_missing, found.n_rows) == (4, len(table) - 4)
    assert said(found, f"4 of {len(table)} rows have no score and are left out (e0 3, e1 1).")
    pd.testing.assert_frame_equal(found.coefficients, without.coefficients)
    assert not said(without, "no score")


def test_an_explainer_without_scores_is_null_and_the_others_are_as_without_it() -> None:
    table = scores()
    blank = table.assign(f=table["f"].where(table["explainer"] != "e2"))
    found, without = fit(blank, FORMULA), fit(table[table["explainer"] != "e2"], FORMULA)
    assert said(found, "explainer e2 has no score")
    pairs = found.contrasts()
    with_e2 = (pairs["left"] == "e2") | (pairs["right"] == "e2")
    assert pairs.loc[with_e2, ["estimate", "p_adjusted"]].isna().all(axis=None)
    pd.testing.assert_frame_equal(pairs[~with_e2].reset_index(drop=True), without.contrasts())
    assert np.isnan(found.marginal_means()["estimate"][2])


def test_a_base_level_without_scores_leaves_the_differences_of_the_others() -> None:
    table = scores()
    found = fit(table.assign(f=table["f"].where(table["explainer"] != "e0")), FORMULA, reference="e0")
    without = fit(table[table["explainer"] != "e0"], FORMULA)
    assert found.against_reference()["estimate"].isna().all()
    known = found.contrasts().dropna().reset_index(drop=True)
    pd.testing.assert_frame_equal(known, without.contrasts(), rtol=1e-6)


def test_an_explainer_that_one_model_lacks_is_fine() -> None:
    table = scores()
    found = fit(table[(table["explainer"] != "e1") | (table["vlm"] != "v0")], FORMULA)
    assert found.contrasts()["p"].notna().all()
    assert not said(found, "e1")


def test_a_singular_fit_is_said_and_keeps_its_contrasts() -> None:
    table = scores(n_samples=40)
    centred = table.assign(f=table["f"] - table.groupby("vlm")["f"].transform("mean"))
    found = fit(centred, FORMULA)
    assert found.singular
    assert said(found, "The fit is singular: no variance is found for vlm.")
    assert found.contrasts()["p"].notna().all()
    assert found.variances.set_index("group").loc["vlm", "variance"] == 0


@pytest.mark.parametrize(("n_vlms", "expected"), [(4, True), (5, False)])
def test_a_random_factor_of_few_levels_is_said(n_vlms: int, expected: bool) -> None:
    assert said(fit(scores(n_vlms=n_vlms), FORMULA), f"vlm has {n_vlms} levels") is expected


@pytest.mark.parametrize(
    ("formula", "words"),
    [
        ("f ~ explainer + (1|sample) + (1|one)", "(1|one) is left out: one has one level only."),
        (
            "f ~ explainer + (1|sample) + (1|copy)",
            "(1|copy) is left out: copy has the same groups as sample.",
        ),
        ("f ~ explainer + (1|sample) + (1|row)", "(1|row) is left out: each level of row has one row"),
        ("f ~ explainer + (1|sample) + (1|explainer)", "(1|explainer) is left out: the fixed part says all"),
    ],
)
def test_a_factor_that_cannot_be_told_is_left_out_and_said(formula: str, words: str) -> None:
    table = scores()
    table = table.assign(one="x", copy="c" + table["sample"], row=np.arange(len(table)))
    found = fit(table, formula)
    assert said(found, words)
    without = fit(table, "f ~ explainer + (1|sample)")
    assert found.variances["group"].tolist() == ["sample", "residual"]
    pd.testing.assert_frame_equal(found.coefficients, without.coefficients)


def test_without_random_factors_it_is_ordinary_least_squares() -> None:
    table = scores(n_samples=1)
    found = fit(table, "f ~ explainer + (1|sample)")
    assert said(found, "these are ordinary least squares")
    means = table.groupby("explainer")["f"].mean()
    row = found.contrasts("none").iloc[0]
    variance = table.groupby("explainer")["f"].var().mean()
    assert row["estimate"] == pytest.approx(means["e0"] - means["e1"], rel=1e-9)
    assert row["std_error"] == pytest.approx(np.sqrt(2 * variance / 3), rel=1e-9)
    assert row["df"] == pytest.approx(8, rel=1e-9)


def test_equal_scores_give_their_value_and_no_test() -> None:
    found = fit(scores().assign(f=0.3), FORMULA)
    assert said(found, "All scores are equal (0.3), so there is nothing to test.")
    np.testing.assert_allclose(found.marginal_means()["estimate"], 0.3)
    np.testing.assert_array_equal(found.contrasts()["estimate"], 0)
    assert found.coefficients[TESTED].isna().all(axis=None)


@pytest.mark.parametrize("noise", [0.0, 1e-12])
def test_scores_that_the_factors_say_wholly_give_estimates_and_no_test(noise: float) -> None:
    table = scores()
    whole = table["explainer"].str[1:].astype(float) + table["sample"].str[1:].astype(float) ** 2
    found = fit(table.assign(f=whole + noise * table["f"]), FORMULA)
    assert said(found, "The factors say all of each score")
    np.testing.assert_allclose(found.coefficients["estimate"][1:], [1, 2, 3], rtol=1e-6)
    assert found.coefficients[TESTED].isna().all(axis=None)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (slice(0, 0), "No row has a score"),
        (slice(0, 1), "All scores are equal"),
        (slice(0, 5), "There are 5 rows for 6 parameters: too few to fit."),
    ],
)
def test_too_few_rows_are_said(rows: slice, words: str) -> None:
    found = fit(scores(n_explainers=4).iloc[rows], "f ~ explainer + (1|sample) + (1|vlm)")
    assert said(found, words)
    assert found.coefficients[TESTED].isna().all(axis=None)
    assert np.isnan(found.reml_criterion)


def test_no_score_at_all_keeps_the_rows_of_the_tables() -> None:
    found = fit(scores().assign(f=np.nan), FORMULA, reference="e1")
    assert found.coefficients["term"].tolist() == [
        "intercept", "explainer[e0]", "explainer[e2]", "explainer[e3]",
    ]  # fmt: skip
    assert len(found.contrasts()) == 6
    assert found.contrasts().drop(columns=["left", "right"]).isna().all(axis=None)


def test_one_explainer_has_a_mean_and_no_contrast() -> None:
    table = scores()
    found = fit(table[table["explainer"] == "e1"], FORMULA)
    assert said(found, "explainer has one level only (e1): there is nothing to compare.")
    assert len(found.contrasts()) == 0
    assert found.marginal_means()["low"].notna().all()


def test_fixed_factors_that_say_the_same_are_null_where_they_share() -> None:
    table = scores()
    found = fit(table.assign(copy=table["vlm"]), "f ~ explainer + vlm + copy + (1|sample)")
    once = fit(table, "f ~ explainer + vlm + (1|sample)")
    assert said(found, "Some fixed factors say the same")
    assert found.coefficients["estimate"][4:].isna().all()
    pd.testing.assert_frame_equal(found.contrasts(), once.contrasts())


def test_means_are_over_the_other_factors_levels_equally() -> None:
    table = scores(share=0.7)
    found = fit(table, "f ~ explainer + vlm + (1|sample)")
    estimates = found.coefficients.set_index("term")["estimate"]
    expected = estimates["intercept"] + (estimates["vlm[v1]"] + estimates["vlm[v2]"]) / 3
    means = found.marginal_means().set_index("level")["estimate"]
    assert means["e0"] == pytest.approx(expected)
    assert means["e2"] == pytest.approx(expected + estimates["explainer[e2]"])


@pytest.mark.parametrize(
    ("change", "formula", "reference", "words"),
    [
        ({}, "g ~ explainer + (1|sampel)", None, "names 'g', 'sampel'; the table has 'explainer'"),
        ({"vlm": None}, FORMULA, None, "column 'vlm' has no value in 144 of 144 rows"),
        ({"f": "high"}, FORMULA, None, "the score, column 'f', must hold numbers"),
        ({}, FORMULA, "random", "reference 'random' is no level of 'explainer'; it has e0, e1, e2, e3"),
        ({}, "f ~ (1|sample)", "e0", "has no fixed factor"),
    ],
)
def test_a_mistake_in_the_call_is_said(
    change: dict[str, object], formula: str, reference: str | None, words: str
) -> None:
    with pytest.raises(AssayError, match=words):
        fit(scores().assign(**change), formula, reference)


def test_an_unknown_adjustment_is_refused() -> None:
    with pytest.raises(AssayError, match="adjust 'tukey' is unknown; there are holm, none"):
        fit(scores(), FORMULA).contrasts("tukey")


def test_the_reference_and_the_row_order_move_no_contrast() -> None:
    table = scores(share=0.9)
    first = fit(table, FORMULA).contrasts().iloc[[0, 3]].reset_index(drop=True)
    again = fit(table.sample(frac=1, random_state=1), FORMULA, reference="e0").contrasts()
    pd.testing.assert_frame_equal(first, again.iloc[[0, 3]].reset_index(drop=True), rtol=1e-6)
    turned = fit(table, FORMULA, reference="e1").contrasts().iloc[0]
    assert (turned["left"], turned["right"]) == ("e1", "e0")
    assert turned["estimate"] == pytest.approx(-first["estimate"][0])
    assert turned["p"] == pytest.approx(first["p"][0], rel=1e-5)
