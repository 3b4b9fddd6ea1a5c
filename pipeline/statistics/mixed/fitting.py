"""`fit`: a linear mixed model of a tidy table, and what it says of the first fixed factor."""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipeline.errors import AssayError
from pipeline.statistics.cells import NEGLIGIBLE
from pipeline.statistics.intervals import Floats
from pipeline.statistics.mixed.design import Design, FixedFactor, design_of
from pipeline.statistics.mixed.effects import (
    SINGULAR,
    Effects,
    effects_of,
    independent,
    placed,
    unknown_directions,
    untested,
)
from pipeline.statistics.mixed.formulas import Formula, parse
from pipeline.statistics.mixed.optimum import NO_RESIDUAL, START, minimise
from pipeline.statistics.mixed.reml import Point, problem_of
from pipeline.statistics.paired import holm

ADJUSTMENTS = ("holm", "none")
COMPARED = ("left", "right", "estimate", "std_error", "df", "t", "p", "p_adjusted", "low", "high")
NOTHING_LEFT = "The factors say all of each score, so nothing is left to test with."
MEANS = ("level", "estimate", "std_error", "df", "low", "high")


@dataclass(frozen=True)
class Fit:
    """A fitted model.

    coefficients: term, estimate, std_error, df, t, p, low, high; terms are "intercept" and "factor[level]".
    variances: group, variance, sd, n_levels, a row a random factor and the last "residual" (its rows).
    levels are the first fixed factor's, the base level first. means (levels, p) are the weights of its means.
    p and intervals of coefficients are not adjusted.
    """

    formula: Formula
    reference: str | None
    confidence: float
    n_rows: int
    n_missing: int
    coefficients: pd.DataFrame
    variances: pd.DataFrame
    reml_criterion: float
    singular: bool
    converged: bool
    notes: tuple[str, ...]
    levels: tuple[str, ...]
    effects: Effects
    means: Floats

    def contrasts(self, adjust: str = "holm") -> pd.DataFrame:
        """Return left less right for each pair of levels: `COMPARED`; p_adjusted over all pairs."""
        return self._compared(list(combinations(range(len(self.levels)), 2)), adjust)

    def against_reference(self, adjust: str = "holm") -> pd.DataFrame:
        """Return each other level less the base level: `COMPARED`; p_adjusted over these."""
        return self._compared([(level, 0) for level in range(1, len(self.levels))], adjust)

    def marginal_means(self) -> pd.DataFrame:
        """Return each level's mean, over the levels of other fixed factors equally: `MEANS`."""
        table = self.effects.combine(self.means, self.confidence).assign(level=list(self.levels))
        return table[list(MEANS)]

    def _compared(self, pairs: list[tuple[int, int]], adjust: str) -> pd.DataFrame:
        if adjust not in ADJUSTMENTS:
            raise AssayError(f"adjust {adjust!r} is unknown; there are {', '.join(ADJUSTMENTS)}")
        weights = np.array([self.means[a] - self.means[b] for a, b in pairs]).reshape(-1, self.means.shape[1])
        table = self.effects.combine(weights, self.confidence)
        p = table["p"].to_numpy(dtype=np.float64)
        named = table.assign(
            left=[self.levels[a] for a, _ in pairs],
            right=[self.levels[b] for _, b in pairs],
            p_adjusted=holm(p) if adjust == "holm" else p,
        )
        return named[list(COMPARED)]


def fit(table: pd.DataFrame, formula: str, reference: str | None = None, confidence: float = 0.95) -> Fit:
    """Return the REML fit of a formula such as "f ~ explainer + (1|sample) + (1|vlm:explainer)".

    reference is the base level of the first fixed factor; without it, its first. All columns but the score
    are factors. Rows without a finite score are left out and counted. What the rows cannot tell is null, and
    a note says why; a formula that is not supported, or a column that is not there: AssayError.
    """
    parsed = parse(formula)
    design = design_of(table, parsed, reference)
    effects, solution, notes = _solved(design)
    return Fit(
        formula=parsed,
        reference=reference,
        confidence=confidence,
        n_rows=len(design.y),
        n_missing=design.n_missing,
        coefficients=_coefficients(design, effects, confidence),
        variances=_variances(design, solution),
        reml_criterion=solution.criterion if solution else np.nan,
        singular=bool(solution and solution.at_zero.any()),
        converged=bool(solution and solution.converged),
        notes=(*design.notes, *notes),
        levels=design.fixed[0].levels if design.fixed else (),
        effects=effects,
        means=_mean_weights(design),
    )


@dataclass(frozen=True)
class _Solution:
    """The optimum for scores that were divided by scale."""

    point: Point
    scale: float
    converged: bool

    @property
    def criterion(self) -> float:
        return self.point.criterion + 2 * self.point.freedom * float(np.log(self.scale))

    @property
    def at_zero(self) -> NDArray[np.bool_]:
        return np.sqrt(self.point.ratios) < SINGULAR


def _solved(design: Design) -> tuple[Effects, _Solution | None, list[str]]:
    """Return the effects, the solution if there is one, and sentences about it."""
    gram = (design.columns.T @ design.columns).toarray()
    unknown, kept = unknown_directions(gram), independent(gram)
    why = _why_undefined(design, len(kept) + len(design.random) + 1)
    if why:
        return untested(_equal_scores(design), unknown), None, [why]
    center, scale = float(np.mean(design.y)), float(np.std(design.y))
    y = (design.y - center) / scale
    problem = problem_of(design, design.columns[:, kept], y)
    point, converged = minimise(problem, np.full(len(design.random), START))
    if point.residual_variance < NO_RESIDUAL:
        coefficients = scale * placed(point.coefficients, kept, len(design.terms))
        coefficients[0] += center
        return untested(coefficients, unknown), None, [NOTHING_LEFT]
    effects = effects_of(point, unknown, kept, scale)
    effects.coefficients[0] += center
    solution = _Solution(point, scale, converged)
    return effects, solution, _notes(design, solution, len(design.terms) - len(kept))


def _why_undefined(design: Design, n_parameters: int) -> str:
    n = len(design.y)
    if n == 0:
        return "No row has a score, so nothing can be said."
    if _all_equal(design.y):
        return f"All scores are equal ({design.y[0]:.6g}), so there is nothing to test."
    if n < n_parameters:
        return f"There are {n} rows for {n_parameters} parameters: too few to fit."
    return ""


def _all_equal(y: Floats) -> bool:
    return bool(np.ptp(y) <= NEGLIGIBLE * max(1.0, float(np.abs(y).max())))


def _equal_scores(design: Design) -> Floats:
    """Return the coefficients of scores that are all equal; null for any others."""
    coefficients = np.full(len(design.terms), np.nan)
    if len(design.y) and _all_equal(design.y):
        coefficients[:] = 0
        coefficients[0] = design.y[0]
    return coefficients


def _notes(design: Design, solution: _Solution, n_aliased: int) -> list[str]:
    notes = []
    zero = [one.name for one, none in zip(design.random, solution.at_zero, strict=True) if none]
    if zero:
        notes.append(
            f"The fit is singular: no variance is found for {', '.join(zero)}. Contrasts hold; "
            "intervals of means take that variance for 0."
        )
    if not design.random:
        notes.append("No random factor is left: these are ordinary least squares.")
    if not solution.converged:
        notes.append("The fit did not converge; its numbers are those of the best point found.")
    empty = sum(int(np.sum(_counts(one)[1:] == 0)) for one in design.fixed)
    if n_aliased > empty:
        notes.append("Some fixed factors say the same of these rows; differences that they share are null.")
    return notes


def _coefficients(design: Design, effects: Effects, confidence: float) -> pd.DataFrame:
    table = effects.combine(np.eye(len(design.terms)), confidence)
    table.insert(0, "term", list(design.terms))
    return table


def _variances(design: Design, solution: _Solution | None) -> pd.DataFrame:
    names = [*(one.name for one in design.random), "residual"]
    n_levels = [*(one.n_levels for one in design.random), len(design.y)]
    variance = np.full(len(names), np.nan)
    if solution:
        residual = solution.scale**2 * solution.point.residual_variance
        variance = residual * np.append(solution.point.ratios, 1.0)
    return pd.DataFrame({"group": names, "variance": variance, "sd": np.sqrt(variance), "n_levels": n_levels})


def _mean_weights(design: Design) -> Floats:
    """Return the weights (levels, p) of the first factor's means: other factors' levels count equally."""
    if not design.fixed:
        return np.zeros((0, len(design.terms)))
    parts = [np.ones((len(design.fixed[0].levels), 1)), np.eye(len(design.fixed[0].levels))[:, 1:]]
    for other in design.fixed[1:]:
        seen = (_counts(other) > 0).astype(np.float64)
        parts.append(np.tile((seen / max(seen.sum(), 1))[1:], (len(parts[0]), 1)))
    return np.hstack(parts)


def _counts(one: FixedFactor) -> NDArray[np.int64]:
    return np.asarray(np.bincount(one.codes, minlength=len(one.levels)), dtype=np.int64)
