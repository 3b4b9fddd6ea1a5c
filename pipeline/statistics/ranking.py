"""Which method is first: an order by mean, and how firm the first place is."""

import numpy as np
from numpy.typing import NDArray

from pipeline.statistics.cells import NEGLIGIBLE
from pipeline.statistics.intervals import Floats

BLOCK = 1 << 21


def common_units(values: Floats) -> NDArray[np.bool_]:
    """Return which rows of values (n units, M methods) every method scored; (n,).

    A method without any score leaves the others comparable and is not asked.
    """
    scored = ~np.isnan(values)
    asked = scored.any(axis=0)
    return np.asarray(scored[:, asked].all(axis=1), dtype=np.bool_) & asked.any()


def ranking(means: Floats) -> list[int]:
    """Return the methods' numbers, highest mean first; ties by number (methods go by name); null last."""
    rounded = np.round(means, 12)
    return [int(m) for m in np.argsort(-np.where(np.isnan(rounded), -np.inf, rounded), kind="stable")]


def first_shares(values: Floats, n_bootstrap: int, rng: np.random.Generator) -> Floats:
    """Return how often each column of values (n units, M methods) has the highest mean, as (M,).

    Units are drawn with replacement, the same ones for every method; NaN scores enter no mean.
    Methods that tie share the sample equally. A method without a score is null.
    """
    scored = ~np.isnan(values)
    if not scored.any():
        return np.full(values.shape[1], np.nan)
    filled, weights = np.where(scored, values, 0.0), scored.astype(np.float64)
    n, total = len(values), np.zeros(values.shape[1])
    rows = max(1, BLOCK // n)
    for start in range(0, n_bootstrap, rows):
        counts = _resampled(n, min(rows, n_bootstrap - start), rng)
        sizes = counts @ weights
        means = np.where(sizes > 0, (counts @ filled) / np.maximum(sizes, 1), -np.inf)
        first = means >= means.max(axis=1, keepdims=True) - NEGLIGIBLE
        total += np.sum(first / first.sum(axis=1, keepdims=True), axis=0)
    return np.where(scored.any(axis=0), total / n_bootstrap, np.nan)


def _resampled(n: int, n_samples: int, rng: np.random.Generator) -> Floats:
    index = rng.integers(n, size=(n_samples, n)) + n * np.arange(n_samples)[:, None]
    return np.bincount(index.ravel(), minlength=n_samples * n).reshape(n_samples, n).astype(np.float64)
