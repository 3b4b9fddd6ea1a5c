"""Paired tests of two methods over the units that both scored, and Holm's adjustment."""

import numpy as np
from scipy import stats

from pipeline.statistics.cells import NEGLIGIBLE
from pipeline.statistics.intervals import Floats


def paired_t(differences: Floats) -> tuple[float, float]:
    """Return t and the two-sided p of a paired t test on differences (n,).

    Fewer than two: null. All zero: (0, 1). All equal and not zero: (+-inf, 0), the limit.
    """
    n = len(differences)
    if n < 2:
        return np.nan, np.nan
    mean = float(np.mean(differences))
    if np.ptp(differences) <= NEGLIGIBLE:
        return (0.0, 1.0) if abs(mean) <= NEGLIGIBLE else (float(np.copysign(np.inf, mean)), 0.0)
    t = mean / (float(np.std(differences, ddof=1)) / np.sqrt(n))
    return t, float(2 * stats.t.sf(abs(t), n - 1))


def signed_rank(differences: Floats) -> float:
    """Return the two-sided p of Wilcoxon's signed-rank test on differences (n,), zeros as Pratt has them.

    None: null. One, or all zero: 1. Exact where that is cheap: 50 or fewer without ties or zeros,
    13 or fewer with them; else the normal approximation.
    """
    if len(differences) == 0:
        return np.nan
    if len(differences) == 1 or not np.any(differences):
        return 1.0
    return float(stats.wilcoxon(differences, zero_method="pratt").pvalue)


def holm(p: Floats) -> Floats:
    """Return p (m,) adjusted by Holm (1979); null values stay null and do not count in m."""
    adjusted = np.full(len(p), np.nan)
    known = np.flatnonzero(~np.isnan(p))
    order = known[np.argsort(p[known], kind="stable")]
    steps = np.arange(len(order), 0, -1) * p[order]
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted
