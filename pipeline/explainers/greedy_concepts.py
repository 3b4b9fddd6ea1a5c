"""Choose few concepts for one unit: add them one by one, refit, and see whether held-out images agree."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
LEVEL = 1e-12
DEPENDENT = 1e-9
NO_VARIANCE = 1e-12


@dataclass(frozen=True, eq=False)
class Moments:
    """Covariances on a set of images: of K candidates with each other (K, K), of each with the unit (K,)."""

    concepts: FloatArray
    unit: FloatArray
    variance: float


def moments(rows: FloatArray, target: FloatArray) -> Moments:
    """Return the moments of candidates (K, n) and a unit's activation (n,)."""
    rows = rows - rows.mean(axis=1, keepdims=True)
    target = target - target.mean()
    n = len(target)
    return Moments(rows @ rows.T / n, rows @ target / n, float(target @ target / n))


def choose(
    training: Moments, validation: Moments, *, max_concepts: int, min_gain: float, width: int
) -> tuple[list[int], FloatArray]:
    """Return the chosen candidates, by order of entry, and the weights of their least squares on training.

    Candidates come in their order of preference. The first choice is one of the first `width` that rise with
    the unit on training: the one of highest validation correlation. After that each step refits the chosen
    ones with each of the next `width` candidates. One that raises the validation correlation by less than
    `min_gain` is never tried again; of the others the one that raises it most is added, of equal ones
    (within 1e-12) the first. A correlation that is undefined counts as 0. Empty where no candidate rises
    with the unit.
    """
    left = [int(place) for place in np.flatnonzero(training.unit > 0)[:width]]
    if not left:
        return [], np.empty(0)
    scores, weights = _refits(training, validation, [], left)
    best = _first_highest(scores)
    chosen, kept, reached = [left[best]], weights[best], scores[best]
    left = [place for place in range(len(training.unit)) if place != chosen[0]]
    while left and len(chosen) < max_concepts:
        tried = left[:width]
        scores, weights = _refits(training, validation, chosen, tried)
        good = scores - reached >= min_gain
        left = [place for place, stays in zip(tried, good, strict=True) if stays] + left[width:]
        if not good.any():
            break
        best = _first_highest(scores)
        chosen, kept, reached = [*chosen, tried[best]], weights[best], scores[best]
        left.remove(tried[best])
    return chosen, kept


def _first_highest(scores: FloatArray) -> int:
    return int(np.flatnonzero(scores >= scores.max() - LEVEL)[0])


def _refits(
    training: Moments, validation: Moments, chosen: list[int], tried: list[int]
) -> tuple[FloatArray, FloatArray]:
    """Return validation correlations (m,) and weights (m, s + 1) of the s chosen with each tried candidate.

    The weights are least squares by elimination. A candidate whose variance the chosen ones explain but for
    1e-9 of it has no weight of its own: its correlation is minus infinity.
    """
    covariance = training.concepts[np.ix_(chosen, tried)]
    regression = np.linalg.solve(training.concepts[np.ix_(chosen, chosen)], covariance)
    own = np.diag(training.concepts)[tried]
    free = own - (covariance * regression).sum(axis=0)
    product = training.unit[tried] - training.unit[chosen] @ regression
    independent = free > DEPENDENT * own
    last = np.where(independent, product, 0.0) / np.where(independent, free, 1.0)
    alone = np.linalg.solve(training.concepts[np.ix_(chosen, chosen)], training.unit[chosen])
    weights = np.column_stack([alone[None, :] - (regression * last).T, last])
    places = np.column_stack([np.tile(chosen, (len(tried), 1)).astype(np.intp), tried])
    return np.where(independent, _correlations(validation, places, weights), -np.inf), weights


def _correlations(validation: Moments, places: NDArray[np.intp], weights: FloatArray) -> FloatArray:
    """Return the correlation (m,) of the unit with each sum, a row of places and weights; 0 if undefined."""
    product = (weights * validation.unit[places]).sum(axis=1)
    gram = validation.concepts[places[:, :, None], places[:, None, :]]
    variance = np.einsum("mi,mij,mj->m", weights, gram, weights)
    defined = (variance > NO_VARIANCE) & (validation.variance > NO_VARIANCE)
    return np.where(defined, product, 0.0) / np.sqrt(np.where(defined, variance * validation.variance, 1.0))
