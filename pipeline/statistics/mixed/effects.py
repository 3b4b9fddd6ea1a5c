"""Linear combinations of fixed coefficients, with Satterthwaite's degrees of freedom."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from pipeline.statistics.intervals import Codes, Floats
from pipeline.statistics.mixed.reml import Point

TESTED = ("estimate", "std_error", "df", "t", "p", "low", "high")
SINGULAR = 1e-4
"""lme4's rule: a standard deviation below this share of the residual's is none."""
UNTOLD = 1e-7


@dataclass(frozen=True)
class Effects:
    """Coefficients (p,) and what their combinations need.

    covariance (p, p); gradients (k, p, p) of the covariance by the variance parameters; parameters (k, k) is
    half of these parameters' covariance. unknown (p, u) spans the directions that the rows say nothing of.
    """

    coefficients: Floats
    covariance: Floats
    gradients: Floats
    parameters: Floats
    unknown: Floats

    def combine(self, weights: Floats, confidence: float) -> pd.DataFrame:
        """Return estimate, std_error, df, t, p and the t interval of each row of weights (c, p).

        df = 2 (w'Cw)^2 / Var(w'Cw) by the delta method (Satterthwaite 1946; Giesbrecht and Burns 1985).
        A combination that the rows do not tell is null.
        """
        known = np.all(np.abs(weights @ self.unknown) <= UNTOLD, axis=1)
        estimate = np.where(known, weights @ self.coefficients, np.nan)
        variance = np.einsum("cp,pq,cq->c", weights, self.covariance, weights)
        slopes = np.einsum("cp,kpq,cq->ck", weights, self.gradients, weights)
        spread = np.einsum("ck,kl,cl->c", slopes, self.parameters, slopes)
        error = np.where(known & (variance > 0), np.sqrt(np.maximum(variance, 0)), np.nan)
        df = np.divide(variance**2, spread, out=np.full(len(weights), np.nan), where=spread > 0)
        t = estimate / error
        half = stats.t.ppf((1 + confidence) / 2, df) * error
        columns = (estimate, error, df + 0 * error, t, 2 * stats.t.sf(np.abs(t), df))
        return pd.DataFrame(dict(zip(TESTED, (*columns, estimate - half, estimate + half), strict=True)))


def effects_of(point: Point, unknown: Floats, kept: Codes, scale: float) -> Effects:
    """Return the effects at a point, for scores that were divided by scale.

    kept are the numbers of the columns that were fitted; the others' coefficients are 0. A ratio at 0 is
    no parameter: its standard deviation has slope 0 there, as in lmerTest.
    """
    v, n_columns = point.residual_variance, len(unknown)
    free = np.flatnonzero(np.sqrt(point.ratios) >= SINGULAR)
    at = np.append(free, len(point.ratios))
    gradients = [scale**2 * v * point.slopes[i] for i in free]
    return Effects(
        coefficients=scale * placed(point.coefficients, kept, n_columns),
        covariance=placed(scale**2 * v * point.spread, kept, n_columns),
        gradients=np.array([placed(one, kept, n_columns) for one in [*gradients, scale**2 * point.spread]]),
        parameters=_inverse(point.variance_hessian[np.ix_(at, at)]),
        unknown=unknown,
    )


def untested(coefficients: Floats, unknown: Floats) -> Effects:
    """Return effects that are estimates alone: everything else is null."""
    n = len(coefficients)
    return Effects(
        coefficients, np.full((n, n), np.nan), np.full((1, n, n), np.nan), np.full((1, 1), np.nan), unknown
    )


def independent(gram: Floats) -> Codes:
    """Return the numbers of the columns that are no combination of earlier ones, of X'X (p, p)."""
    kept: list[int] = []
    for column in range(len(gram)):
        against = gram[np.ix_(kept, kept)]
        left = gram[column, column] - gram[column, kept] @ np.linalg.solve(against, gram[kept, column])
        if left > UNTOLD * max(gram[column, column], 1):
            kept.append(column)
    return np.array(kept, dtype=np.int64)


def unknown_directions(gram: Floats) -> Floats:
    """Return the null space (p, u) of X'X (p, p)."""
    values, vectors = np.linalg.eigh(gram)
    return np.asarray(vectors[:, values <= UNTOLD * max(values.max(initial=0), 1)], dtype=np.float64)


def placed(values: Floats, kept: Codes, n_columns: int) -> Floats:
    """Return values of the kept columns (n,) or (n, n) among all n_columns, 0 elsewhere."""
    full = np.zeros((n_columns,) * values.ndim)
    full[np.ix_(*(kept,) * values.ndim)] = values
    return full


def _inverse(hessian: Floats) -> Floats:
    """Return the inverse over the directions in which the matrix is positive."""
    scale = 1 / np.sqrt(np.maximum(np.abs(np.diag(hessian)), np.finfo(np.float64).tiny))
    values, vectors = np.linalg.eigh(scale[:, None] * hessian * scale)
    up = values > 1e-10
    sides = scale[:, None] * vectors[:, up]
    return np.asarray((sides / values[up]) @ sides.T, dtype=np.float64)
