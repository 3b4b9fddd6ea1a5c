"""The plain weighted moments, with all that is known of the activations: mean 0, variance 1."""

import numpy as np

from pipeline.crowd.arrays import FloatArray
from pipeline.crowd.estimators.sample import Population, Sample


def terms(sample: Sample, population: Population | None) -> FloatArray:
    """Return w c, w c^2, w a c: (..., 3, n).

    With w = 1 / (N q) and q = inclusion probability / n, their means are the estimated totals over N.
    """
    w, a, c = sample.weight, sample.activation, sample.presence
    return np.stack([w * c, w * c * c, w * a * c], axis=-2)


def correlation(moments: FloatArray, population: Population | None) -> tuple[FloatArray, FloatArray]:
    """Return rho (...,) and its gradient (..., 3): mean(w a c) / sqrt(mean(w c^2) - mean(w c)^2).

    Source: D. Horvitz and D. Thompson, JASA 47 (1952), for each moment.
    """
    mu, square, product = np.moveaxis(moments, -1, 0)
    variance = square - mu**2
    sd = np.sqrt(variance)
    rho = product / sd
    slope = -rho / (2 * variance)
    return rho, np.stack([-2 * mu * slope, slope, 1 / sd], axis=-1)
