"""The difference of two texts' estimates for one unit."""

from dataclasses import dataclass

import numpy as np
from scipy import stats

from pipeline.crowd.arrays import FloatArray


@dataclass(frozen=True)
class PairedDifference:
    """a - b, with its standard error, degrees of freedom and interval; n_shared images counted in both."""

    difference: float
    std_error: float
    df: float
    low: float
    high: float
    n_shared: int


def paired_difference(
    rho: tuple[float, float],
    influence: tuple[dict[str, float], dict[str, float]],
    *,
    confidence: float = 0.95,
) -> PairedDifference:
    """Return the difference of two estimates whose draws share images on purpose (coordinated draws).

    influence: of each estimate, by image id, summed over its draws. An image in both counts by the
    difference of its influences, so what the texts share cancels; without shared images the variances
    add. df by Satterthwaite's rule over images. NaN bounds where nothing varies.
    """
    a, b = influence
    images = sorted({*a, *b})
    each: FloatArray = np.array([a.get(image, 0.0) - b.get(image, 0.0) for image in images])
    variance = float((each**2).sum())
    spread = float(((each**2 - variance / max(1, len(each))) ** 2).sum())
    df = float(np.clip(2 * variance**2 / spread, 1, None)) if spread > 0 else float("inf")
    error = float(np.sqrt(variance)) if variance > 0 else float("nan")
    half = float(stats.t.ppf((1 + confidence) / 2, df)) * error
    difference = rho[0] - rho[1]
    n_shared = len(a.keys() & b.keys())
    return PairedDifference(difference, error, df, difference - half, difference + half, n_shared)
