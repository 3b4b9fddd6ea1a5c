"""Three tables that R has fitted: lme4 1.1-31, lmerTest 3.1.3, emmeans 1.8.4."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lme_python
import numpy as np
import pandas as pd
import pytest

from pipeline.statistics import Fit, fit

GOLDEN = Path(__file__).parents[3] / "shared" / "data" / "lmm"
pytestmark = pytest.mark.skipif(not GOLDEN.is_dir(), reason="../shared/data/lmm is not here")


@dataclass(frozen=True)
class Case:
    name: str
    table: pd.DataFrame
    r: dict[str, Any]
    fit: Fit


@pytest.fixture(scope="module", params=["balanced", "singular", "unbalanced"])
def case(request: pytest.FixtureRequest) -> Case:
    return read(request.param)


def read(name: str) -> Case:
    table = pd.read_csv(GOLDEN / f"{name}.csv")
    r = json.loads((GOLDEN / f"{name}.lme4.json").read_text())
    return Case(name, table, r, fit(table, r["formula"], reference="Random"))


def test_the_criterion_is_at_most_lme4s(case: Case) -> None:
    assert case.fit.reml_criterion <= case.r["reml_criterion"] + 1e-6
    assert case.fit.reml_criterion == pytest.approx(case.r["reml_criterion"], abs=1e-4)


def test_lme_python_finds_the_same_criterion(case: Case) -> None:
    other = lme_python.lmer(case.r["formula"], case.table)
    assert case.fit.reml_criterion == pytest.approx(other.reml_criterion, abs=1e-4)


def test_coefficients_are_lme4s(case: Case) -> None:
    r = pd.DataFrame(case.r["coefficients"])
    terms = ["intercept", *(f"explainer[{term.removeprefix('explainer')}]" for term in r["term"][1:])]
    assert case.fit.coefficients["term"].tolist() == terms
    np.testing.assert_allclose(case.fit.coefficients["estimate"], r["Estimate"], rtol=1e-5)
    np.testing.assert_allclose(case.fit.coefficients["std_error"][1:], r["Std. Error"][1:], rtol=1e-5)
    np.testing.assert_allclose(case.fit.coefficients["std_error"][0], r["Std. Error"][0], rtol=2e-3)
    np.testing.assert_allclose(case.fit.coefficients["df"], r["df"], rtol=1e-2)
    variances = [one["vcov"] for one in case.r["variances"]]
    np.testing.assert_allclose(case.fit.variances["variance"], variances, rtol=3e-3, atol=1e-10)


@pytest.mark.parametrize("kind", ["pairs_holm", "vs_reference_holm"])
def test_differences_are_those_of_r(case: Case, kind: str) -> None:
    r = pd.DataFrame(case.r[kind])
    found = case.fit.contrasts() if kind == "pairs_holm" else case.fit.against_reference()
    assert (found["left"] + " - " + found["right"]).tolist() == r["contrast"].tolist()
    np.testing.assert_allclose(found["estimate"], r["estimate"], rtol=1e-5)
    np.testing.assert_allclose(found["std_error"], r["SE"], rtol=1e-5)
    np.testing.assert_allclose(found["df"], r["df"], rtol=1e-2)
    np.testing.assert_allclose(found["p_adjusted"], r["p.value"], atol=1e-3)


def test_marginal_means_have_the_intervals_of_r(case: Case) -> None:
    r, found = pd.DataFrame(case.r["marginal_means"]), case.fit.marginal_means()
    assert found["level"].tolist() == r["explainer"].tolist()
    np.testing.assert_allclose(found["estimate"], r["emmean"], rtol=1e-5)
    np.testing.assert_allclose(found["high"] - found["low"], r["upper.CL"] - r["lower.CL"], rtol=0.03)
    z = 2 * 1.96 * found["std_error"]
    assert ((found["high"] - found["low"]) > 1.3 * z).all()


def test_notes_say_what_is_singular_and_what_has_few_levels(case: Case) -> None:
    assert case.fit.singular is case.r["singular"]
    said = " ".join(case.fit.notes)
    assert ("singular: no variance is found for model." in said) is case.r["singular"]
    assert "model has 3 levels" in said
    assert "dataset has 3 levels" in said
    assert "sample has" not in said


def test_the_balanced_table_has_the_closed_form() -> None:
    case = read("balanced")
    table, n = case.table, len(case.table)
    y = table["F"]

    def squares(names: list[str]) -> float:
        return float(((table.groupby(names)["F"].transform("mean") - y.mean()) ** 2).sum())

    explainer, model, dataset, sample = (
        squares([name]) for name in ("explainer", "model", "dataset", "sample")
    )
    residual = (float(((y - y.mean()) ** 2).sum()) - explainer - model - sample) / 9350
    in_sample = (sample - dataset) / 357
    expected = {
        "sample": (in_sample - residual) / 27,
        "model": (model / 2 - residual) / (n / 3),
        "dataset": (dataset / 2 - in_sample) / (n / 3),
        "residual": residual,
    }
    assert case.fit.variances["group"].tolist() == list(expected)
    np.testing.assert_allclose(case.fit.variances["variance"], list(expected.values()), rtol=1e-6)
    error = np.sqrt(2 * residual / (n / 9))
    np.testing.assert_allclose(case.fit.coefficients["std_error"][1:], error, rtol=1e-6)
    np.testing.assert_allclose(case.fit.contrasts()["df"], 9350, rtol=1e-6)
    means = y.groupby(table["explainer"]).mean()
    np.testing.assert_allclose(
        case.fit.against_reference()["estimate"], means.drop("Random") - means["Random"], rtol=1e-6
    )
