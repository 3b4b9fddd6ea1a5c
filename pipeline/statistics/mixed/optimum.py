"""The variance ratios at which the REML criterion is least."""

import numpy as np
from scipy import linalg

from pipeline.statistics.intervals import Floats
from pipeline.statistics.mixed.reml import Point, Problem, evaluate

START = 0.1
"""The ratio of each random factor to begin with."""
STEPS = 100
DECREMENT = 1e-12
LARGEST = 1e12
NO_RESIDUAL = 1e-12
"""Of scores of variance 1: below it the factors say all of each score, and ratios have no optimum."""


def minimise(problem: Problem, ratios: Floats) -> tuple[Point, bool]:
    """Return the point of least criterion from `ratios` (K,) on, and whether Newton's steps converged.

    A ratio is held at 0 while the criterion rises from there. Where the Hessian is not positive, the step
    is Fisher's; a step that does not lower the criterion is halved.
    """
    point = evaluate(problem, ratios)
    for _ in range(STEPS):
        if point.residual_variance < NO_RESIDUAL:
            return point, False
        free = (point.ratios > 0) | (point.gradient < 0)
        step = _step(point, free)
        if -float(step @ point.gradient) <= DECREMENT:
            return evaluate(problem, np.clip(point.ratios + step, 0, LARGEST)), True
        better = _descend(problem, point, step)
        if better is None:
            return point, -float(step @ point.gradient) <= 1e-6
        point = better
    return point, False


def _step(point: Point, free: np.ndarray) -> Floats:
    """Return the Newton step of the free ratios; of those that it would push from 0 below it, none."""
    step = np.zeros(len(free))
    if not free.any():
        return step
    at = np.ix_(free, free)
    for matrix in (point.hessian[at], point.expected[at]):
        try:
            step[free] = -linalg.cho_solve(linalg.cho_factor(matrix), point.gradient[free])
        except linalg.LinAlgError:
            continue
        blocked = (point.ratios == 0) & (step < 0)
        return _step(point, free & ~blocked) if blocked.any() else step
    step[free] = -point.gradient[free] / np.maximum(np.diag(point.expected)[free], 1e-12)
    step[(point.ratios == 0) & (step < 0)] = 0
    return step


def _descend(problem: Problem, point: Point, step: Floats) -> Point | None:
    for halving in range(40):
        ratios = np.clip(point.ratios + 0.5**halving * step, 0, LARGEST)
        candidate = evaluate(problem, ratios)
        if candidate.criterion < point.criterion:
            return candidate
    return None
