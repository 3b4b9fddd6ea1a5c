"""The restricted likelihood against its literal definition in N x N matrices, and others' optima."""

import lme_python
import mixedlm
import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.optimize import approx_fprime

from pipeline.statistics.intervals import Floats
from pipeline.statistics.mixed import fitting
from pipeline.statistics.mixed.design import Design, design_of, indicators
from pipeline.statistics.mixed.fitting import fit
from pipeline.statistics.mixed.formulas import parse
from pipeline.statistics.mixed.reml import Problem, evaluate, problem_of
from tests.statistics.test_mixed_tables import scores

CROSSED = "f ~ explainer + (1|sample) + (1|vlm) + (1|dataset)"
FULL = CROSSED + " + (1|vlm:explainer) + (1|dataset:explainer) + (1|sample:vlm)"
FORMULAS = (
    "f ~ explainer + (1|sample)",
    CROSSED,
    FULL,
    FULL + " + (1|sample:explainer)",
    "f ~ explainer + vlm + (1|vlm:explainer) + (1|sample:vlm)",
)


def dense(design: Design, ratios: Floats) -> tuple[Floats, Floats, Floats]:
    """Return X, H and V_i as full matrices."""
    sides = [indicators(one.codes, one.n_levels).toarray() for one in design.random]
    each = np.array([side @ side.T for side in sides])
    return design.columns.toarray(), np.eye(len(design.y)) + np.tensordot(ratios, each, 1), each


def problem(table: pd.DataFrame, formula: str) -> tuple[Design, Problem]:
    design = design_of(table, parse(formula), None)
    return design, problem_of(design, design.columns, design.y)


def literal_criterion(design: Design, ratios: Floats) -> float:
    x, h, _ = dense(design, ratios)
    coefficients = np.linalg.solve(x.T @ np.linalg.solve(h, x), x.T @ np.linalg.solve(h, design.y))
    residuals = design.y - x @ coefficients
    freedom = len(design.y) - x.shape[1]
    variance = residuals @ np.linalg.solve(h, residuals) / freedom
    information = np.linalg.slogdet(x.T @ np.linalg.solve(h, x))[1]
    return float(np.linalg.slogdet(h)[1] + information + freedom * (1 + np.log(2 * np.pi * variance)))


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("share", [1.0, 0.8])
def test_criterion_and_derivatives_are_those_of_the_full_matrices(formula: str, share: float) -> None:
    design, cross_products = problem(scores(share=share), formula)
    ratios = np.array([0.5, 0.1, 0.2, 0.05, 0.02, 0.3, 0.15])[: len(design.random)]
    found = evaluate(cross_products, ratios)
    x, h, each = dense(design, ratios)
    inverse = np.linalg.inv(h)
    spread = np.linalg.inv(x.T @ inverse @ x)
    projector = inverse - inverse @ x @ spread @ x.T @ inverse
    moved = projector @ each
    y = design.y
    assert found.criterion == pytest.approx(literal_criterion(design, ratios), abs=1e-9)
    np.testing.assert_allclose(found.coefficients, spread @ x.T @ inverse @ y, atol=1e-12)
    np.testing.assert_allclose(found.spread, spread, atol=1e-12)
    np.testing.assert_allclose(found.traces, np.trace(moved, axis1=1, axis2=2), rtol=1e-9)
    np.testing.assert_allclose(found.quadratics, [y @ one @ projector @ y for one in moved], rtol=1e-9)
    pairs = np.einsum("iab,jba->ij", moved, moved)
    np.testing.assert_allclose(found.trace_pairs, pairs, rtol=1e-8, atol=1e-11)
    quadratic_pairs = [[y @ one @ other @ projector @ y for other in moved] for one in moved]
    np.testing.assert_allclose(found.quadratic_pairs, quadratic_pairs, rtol=1e-8, atol=1e-11)
    side = spread @ x.T @ inverse
    np.testing.assert_allclose(found.slopes, [side @ one @ side.T for one in each], atol=1e-12)


def test_gradient_and_hessian_are_slopes_of_the_criterion() -> None:
    design, cross_products = problem(scores(share=0.9), FULL)
    ratios = np.array([0.5, 0.1, 0.2, 0.05, 0.02, 0.3])
    gradient = approx_fprime(ratios, lambda at: evaluate(cross_products, at).criterion, 1e-7)
    hessian = approx_fprime(ratios, lambda at: evaluate(cross_products, at).gradient, 1e-7)
    found = evaluate(cross_products, ratios)
    np.testing.assert_allclose(found.gradient, gradient, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(found.hessian, hessian, rtol=1e-3, atol=1e-2)
    assert design.random[-1].n_levels == 36


def literal_df(design: Design, weights: Floats, deviations: Floats) -> float:
    """Return lmerTest's df by differences in the standard deviations, the residual's last."""

    def variance(at: Floats) -> float:
        x, h, _ = dense(design, at[:-1] ** 2 / at[-1] ** 2)
        return float(weights @ np.linalg.inv(x.T @ np.linalg.solve(at[-1] ** 2 * h, x)) @ weights)

    def deviance(at: Floats) -> float:
        x, h, _ = dense(design, at[:-1] ** 2 / at[-1] ** 2)
        v = at[-1] ** 2 * h
        information = x.T @ np.linalg.solve(v, x)
        residuals = design.y - x @ np.linalg.solve(information, x.T @ np.linalg.solve(v, design.y))
        dets = np.linalg.slogdet(v)[1] + np.linalg.slogdet(information)[1]
        return float(dets + residuals @ np.linalg.solve(v, residuals))

    def slopes(function: object, at: Floats, step: float = 1e-3) -> Floats:
        moves = np.diag(step * at)
        return np.array([(function(at + m) - function(at - m)) / (2 * m.sum()) for m in moves])  # type: ignore[operator]

    gradient = slopes(variance, deviations)
    hessian = slopes(lambda at: slopes(deviance, at), deviations)
    return float(2 * variance(deviations) ** 2 / (gradient @ (2 * np.linalg.inv(hessian)) @ gradient))


def test_df_are_those_of_lmertest_by_differences() -> None:
    table = scores(n_samples=10, share=0.9, seed=3)
    formula = "f ~ explainer + (1|sample) + (1|vlm:explainer) + (1|sample:vlm)"
    found = fit(table, formula)
    assert not found.singular
    design = design_of(table, parse(formula), None)
    deviations = found.variances["sd"].to_numpy()
    for row, weights in ((0, [1, 0, 0, 0]), (2, [0, 0, 1, 0])):
        expected = literal_df(design, np.array(weights, dtype=np.float64), deviations)
        assert found.coefficients["df"][row] == pytest.approx(expected, rel=1e-3)


@pytest.mark.filterwarnings("ignore::UserWarning:mixedlm")
@pytest.mark.parametrize("formula", [CROSSED, FULL, FULL + " + (1|sample:explainer)"])
@pytest.mark.parametrize("seed", range(3))
def test_the_optimum_is_that_of_mixedlm_and_lme_python(formula: str, seed: int) -> None:
    table = scores(n_samples=40, share=0.9, seed=seed)
    found = fit(table, formula)
    named = table.assign(
        **{"a": table["vlm"] + table["explainer"], "b": table["dataset"] + table["explainer"]},
        c=table["sample"] + table["vlm"],
        d=table["sample"] + table["explainer"],
    )
    plain = formula.replace("vlm:explainer", "a").replace("dataset:explainer", "b").replace("sample:vlm", "c")
    plain = plain.replace("sample:explainer", "d")
    engine = mixedlm.lmer(plain, named).REMLcrit()
    assert found.reml_criterion <= engine + 1e-6
    assert found.reml_criterion == pytest.approx(engine, abs=1e-4)
    other = lme_python.lmer(plain, named).reml_criterion
    assert found.reml_criterion <= other + 1e-6
    if formula == CROSSED:
        assert found.reml_criterion == pytest.approx(other, abs=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_the_optimum_does_not_depend_on_the_start(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    table = scores(n_samples=30, share=0.9, seed=seed)
    usual = fit(table, FULL)
    for start in (1e-3, 5.0):
        monkeypatch.setattr(fitting, "START", start)
        found = fit(table, FULL)
        assert found.reml_criterion == pytest.approx(usual.reml_criterion, abs=1e-8)
        np.testing.assert_allclose(found.variances["sd"], usual.variances["sd"], rtol=1e-5, atol=1e-9)


def test_a_balanced_table_gives_the_analysis_of_variance() -> None:
    table = scores(n_samples=40, n_explainers=3, n_vlms=1, seed=1)
    found = fit(table, "f ~ explainer + (1|sample)", reference="e1")
    cells = table.pivot_table(index="sample", columns="explainer", values="f")
    residuals = cells - cells.mean(axis=0) - cells.mean(axis=1).to_numpy()[:, None] + cells.to_numpy().mean()
    variance = float((residuals**2).to_numpy().sum() / (39 * 2))
    between = 3 * cells.mean(axis=1).var()
    row = found.against_reference("none").iloc[0]
    assert (row["left"], row["right"]) == ("e0", "e1")
    assert row["estimate"] == pytest.approx(cells["e0"].mean() - cells["e1"].mean(), rel=1e-12)
    assert row["std_error"] == pytest.approx(np.sqrt(2 * variance / 40), rel=1e-9)
    assert row["df"] == pytest.approx(78, rel=1e-9)
    assert row["p"] == pytest.approx(2 * stats.t.sf(abs(row["estimate"] / row["std_error"]), 78), rel=1e-9)
    assert found.variances["variance"].tolist() == pytest.approx(
        [(between - variance) / 3, variance], rel=1e-9
    )


def test_scores_in_other_units_change_estimates_and_nothing_else() -> None:
    table = scores(share=0.9)
    found, scaled = fit(table, FULL), fit(table.assign(f=1000 + 50 * table["f"]), FULL)
    assert scaled.contrasts()["estimate"].to_numpy() == pytest.approx(50 * found.contrasts()["estimate"])
    np.testing.assert_allclose(scaled.contrasts()["df"], found.contrasts()["df"], rtol=1e-5)
    difference = 2 * (len(table) - 4) * np.log(50)
    assert scaled.reml_criterion - found.reml_criterion == pytest.approx(difference, rel=1e-9)
