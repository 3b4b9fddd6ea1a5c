"""Do two measures rank alike: explainers in one ranking, and F, D and SII across and within samples."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from pipeline.errors import AssayError
from pipeline.seeds import generator
from pipeline.synergy.states import BoolArray, FloatArray

LEVELS = ("pooled", "across", "within")
PAIRS = (("f", "sii"), ("dividend", "sii"), ("f", "dividend"))
EXCESS = "f_over_dividend"
"""Left side of a difference: how much better F agrees with SII across samples than D does."""


@dataclass(frozen=True)
class RankAgreement:
    """Kendall's tau of two rankings of n things, two-sided p.

    exact: whether p counts permutations; with ties tau is tau-b and p is asymptotic. tau and p are NaN
    below 2 things and where a ranking is constant.
    """

    tau: float
    p: float
    n: int
    exact: bool


@dataclass(frozen=True)
class Agreement:
    """One correlation of two measures over (sample, explainer) cells, with a bootstrap interval.

    level: pooled (all cells at once), across (over samples, the mean over explainers), within (over
    explainers, the mean over samples). measure: spearman or kendall (tau-b). n: correlations averaged;
    n_undefined: those left out because a measure is constant or has fewer than 2 cells. Where n is 0,
    value, low and high are NaN: D is constant within a sample, so its rows within samples say so. left
    `EXCESS`: no correlation but F's less D's with right, both under the same resamples.
    """

    level: str
    left: str
    right: str
    measure: str
    value: float
    low: float
    high: float
    n: int
    n_undefined: int


def rank_agreement(left: ArrayLike, right: ArrayLike) -> RankAgreement:
    """Return how two scorings (E,) of the same explainers agree. Raises AssayError for shapes or NaN."""
    a, b = np.asarray(left, dtype=np.float64), np.asarray(right, dtype=np.float64)
    if a.shape != b.shape or a.ndim != 1 or not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise AssayError(
            f"rankings have shapes {a.shape} and {b.shape}; give one finite score an explainer in both"
        )
    n_left, n_right = len(np.unique(a)), len(np.unique(b))
    if min(n_left, n_right) < 2:
        return RankAgreement(math.nan, math.nan, len(a), False)
    exact = n_left == n_right == len(a)
    found = stats.kendalltau(a, b, method="exact" if exact else "asymptotic")
    return RankAgreement(float(found.statistic), float(found.pvalue), len(a), exact)


def agreements(
    f: ArrayLike,
    dividend: ArrayLike,
    sii: ArrayLike,
    *,
    confidence: float = 0.95,
    n_bootstrap: int = 1000,
    seed: int = 0,
) -> list[Agreement]:
    """Return how F (S, E), D (S,) and SII (S, E) of S samples and E explainers agree.

    A cell where F or SII is not finite is left out. One row for each of `PAIRS`, `LEVELS` and measure, then
    one of `EXCESS` across samples for each measure.
    Intervals are percentiles over n_bootstrap resamples of whole samples, as cells of a sample are not
    independent; resamples in which nothing is defined do not count. Memory grows with (S E)^2. Raises
    AssayError for shapes that do not fit, a D that is not finite, and no cell at all.
    """
    tables, present = _tables(f, dividend, sii)
    n_samples = len(present)
    drawn = generator(seed, "agreement").multinomial(
        n_samples, np.full(n_samples, 1 / n_samples), n_bootstrap
    )
    weights = np.concatenate([np.ones((1, n_samples)), drawn])
    means = {
        (pair, level, measure): _means(
            level, MEASURES[measure], [tables[name] for name in pair], present, weights
        )
        for pair, level, measure in product(PAIRS, LEVELS, MEASURES)
    }
    found = [
        _agreement(level, pair, measure, own, confidence) for (pair, level, measure), own in means.items()
    ]
    for measure in MEASURES:
        (f_means, n, n_undefined), (d_means, n_alone, _) = (
            means[pair, "across", measure] for pair in PAIRS[:2]
        )
        own = (f_means - d_means, min(n, n_alone), n_undefined)
        found.append(_agreement("across", (EXCESS, "sii"), measure, own, confidence))
    return found


def spearman(left: FloatArray, right: FloatArray, weights: FloatArray) -> FloatArray:
    """Return Spearman's correlation of two vectors (N,) under each of B rows of counts (B, N), (B,).

    A count says how often a value is there: 0 or more, whole. NaN where a vector is constant.
    """
    # Half the sum of signs is a midrank less the mean midrank.
    ranks = [weights @ _signs(values).T for values in (left, right)]
    return _cosines(*(np.einsum("bn,bn,bn->b", weights, *two) for two in _products(*ranks)))


def kendall(left: FloatArray, right: FloatArray, weights: FloatArray) -> FloatArray:
    """Return Kendall's tau-b of two vectors (N,) under each of B rows of counts, (B,); see `spearman`."""
    signs = [_signs(values) for values in (left, right)]
    return _cosines(*(np.einsum("bn,bn->b", weights @ (a * b), weights) for a, b in _products(*signs)))


Measure = Callable[[FloatArray, FloatArray, FloatArray], FloatArray]
MEASURES: dict[str, Measure] = {"spearman": spearman, "kendall": kendall}


def _signs(values: FloatArray) -> FloatArray:
    return np.sign(values[:, None] - values[None, :])


def _products(a: FloatArray, b: FloatArray) -> list[tuple[FloatArray, FloatArray]]:
    return [(a, b), (a, a), (b, b)]


def _cosines(both: FloatArray, left: FloatArray, right: FloatArray) -> FloatArray:
    """Return both / sqrt(left right), NaN where either is 0: sums of whole numbers, so 0 is exact."""
    scale = np.sqrt(left * right)
    return np.where(scale > 0, np.clip(both / np.where(scale > 0, scale, 1), -1, 1), np.nan)


def _tables(f: ArrayLike, dividend: ArrayLike, sii: ArrayLike) -> tuple[dict[str, FloatArray], BoolArray]:
    """Return the three as (S, E), 0 where a cell is missing, and which cells are there."""
    scores, exact, whole = (np.asarray(values, dtype=np.float64) for values in (f, sii, dividend))
    if scores.ndim != 2 or exact.shape != scores.shape or whole.shape != scores.shape[:1]:
        raise AssayError(
            f"f has shape {scores.shape}, sii {exact.shape}, dividend {whole.shape}; expected (S, E), (S, E)"
            " and (S,)"
        )
    present = np.isfinite(scores) & np.isfinite(exact)
    if not present.any():
        raise AssayError("no sample has both F and SII; compute SII of samples that have F")
    if not (finite := np.isfinite(whole)).all():
        sample = int(np.flatnonzero(~finite)[0])
        raise AssayError(f"dividend[{sample}] is {whole[sample]}; every sample needs a finite dividend")
    spread = np.broadcast_to(whole[:, None], scores.shape)
    named = {"f": scores, "sii": exact, "dividend": spread}
    return {name: np.where(present, values, 0.0) for name, values in named.items()}, present


def _agreement(
    level: str,
    names: tuple[str, str],
    measure: str,
    found: tuple[FloatArray, int, int],
    confidence: float,
) -> Agreement:
    means, n, n_undefined = found
    low, high = _interval(means[1:], confidence)
    return Agreement(level, *names, measure, float(means[0]), low, high, n, n_undefined)


def _means(
    level: str, measure: Measure, pair: Sequence[FloatArray], present: BoolArray, weights: FloatArray
) -> tuple[FloatArray, int, int]:
    """Return the mean correlation under each row of weights (B,), of how many, and how many are undefined."""
    values, counts = _correlations(level, measure, pair, present, weights)
    defined = np.isfinite(values)
    total = (counts * defined).sum(axis=1)
    sums = (counts * np.where(defined, values, 0)).sum(axis=1)
    n = int(defined[0].sum())
    return np.where(total > 0, sums / np.where(total > 0, total, 1), np.nan), n, defined.shape[1] - n


def _correlations(
    level: str,
    measure: Measure,
    pair: Sequence[FloatArray],
    present: BoolArray,
    weights: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return the correlations (B, C) of a level under each row of weights (B, S), and how each counts."""
    left, right = pair
    if level == "within":
        each = [
            measure(a, b, own[None].astype(float)) for a, b, own in zip(left, right, present, strict=True)
        ]
        return np.broadcast_to(np.concatenate(each), weights.shape), weights
    cells = weights[:, :, None] * present
    if level == "pooled":
        values = measure(left.ravel(), right.ravel(), cells.reshape(len(weights), -1))[:, None]
    else:
        columns = range(present.shape[1])
        values = np.stack([measure(left[:, e], right[:, e], cells[:, :, e]) for e in columns], axis=1)
    return values, np.ones_like(values)


def _interval(means: FloatArray, confidence: float) -> tuple[float, float]:
    defined = means[np.isfinite(means)]
    if not len(defined):
        return math.nan, math.nan
    low, high = np.quantile(defined, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)
