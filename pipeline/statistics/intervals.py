"""The mean of scores over units with its t interval, clustered by text."""

from dataclasses import dataclass
from itertools import count

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from pipeline.statistics.cells import NEGLIGIBLE

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


def error_level(confidence: float) -> float:
    """Return what p must stay below: .05 at .95, where 1 - .95 in floats lets p = .05 pass."""
    return round(1 - confidence, 12)


def fewest_values(confidence: float) -> int:
    """Return the fewest values whose range can be an interval of this confidence: 6 at .95.

    The range of n values holds the median with probability 1 - 2^(1-n): no resampling of them holds more.
    """
    return next(n for n in count(2) if 2.0 ** (1 - n) <= error_level(confidence))


@dataclass(frozen=True)
class MeanInterval:
    """A mean over n units of n_texts texts, its standard deviation over units and its t interval.

    flag is "", or why the interval is not the ordinary one: "no_unit", "one_unit", "one_text",
    "constant" or "equal_texts".
    """

    n: int
    n_texts: int
    mean: float
    sd: float
    low: float
    high: float
    flag: str


def mean_interval(values: Floats, confidence: float = 0.95, texts: Codes | None = None) -> MeanInterval:
    """Return the mean of values (n,) with its t interval, clustered by texts (n,); without them by unit.

    The standard error is `clustered_error`, the degrees of freedom are the texts less one. Null
    intervals: n = 0 (all null), n = 1 (sd null too), one text, and texts that all have the same sum
    of residuals while units differ (the formula gives 0). All values equal: the interval is the mean.
    """
    n = len(values)
    codes = np.arange(n) if texts is None else np.unique(texts, return_inverse=True)[1]
    n_texts = int(codes.max()) + 1 if n else 0
    if n < 2:
        mean = float(values[0]) if n else np.nan
        return MeanInterval(n, n_texts, mean, np.nan, np.nan, np.nan, "one_unit" if n else "no_unit")
    mean = float(np.mean(values))
    sd = 0.0 if np.ptp(values) <= NEGLIGIBLE else float(np.std(values, ddof=1))
    if n_texts == 1:
        return MeanInterval(n, 1, mean, sd, np.nan, np.nan, "one_text")
    if sd == 0:
        return MeanInterval(n, n_texts, mean, 0.0, mean, mean, "constant")
    error = clustered_error(values - mean, codes)
    if error <= NEGLIGIBLE:
        return MeanInterval(n, n_texts, mean, sd, np.nan, np.nan, "equal_texts")
    half = float(stats.t.ppf((1 + confidence) / 2, n_texts - 1)) * error
    return MeanInterval(n, n_texts, mean, sd, mean - half, mean + half, "")


def clustered_error(residuals: Floats, codes: Codes) -> float:
    """Return the standard error of a mean from residuals (n,) in clusters codes (n,), 0 to G - 1.

    sqrt(G / (G - 1) sum_g (sum of the residuals in g)^2) / n: CR1 for a regression on a constant
    (Cameron and Miller 2015, "A Practitioner's Guide to Cluster-Robust Inference", J. Human Resources
    50(2); its other factor (N - 1) / (N - K) is 1). With every cluster of size 1 it is sd / sqrt(n).
    """
    sums = np.bincount(codes, weights=residuals)
    return float(np.sqrt(len(sums) / (len(sums) - 1) * np.sum(sums**2)) / len(residuals))
