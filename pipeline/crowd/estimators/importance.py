"""The paper's estimator: a weighted correlation whose activations are centred over all images."""

import numpy as np

from pipeline.crowd.arrays import FloatArray
from pipeline.crowd.estimators.sample import Population, Sample


def terms(sample: Sample, population: Population | None) -> FloatArray:
    """Return w, w c, w c^2, w a, w a c: (..., 5, n)."""
    w, a, c = sample.weight, sample.activation, sample.presence
    return np.stack([w, w * c, w * c * c, w * a, w * a * c], axis=-2)


def correlation(moments: FloatArray, population: Population | None) -> tuple[FloatArray, FloatArray]:
    """Return rho (...,) and its gradient (..., 5) at the means of `terms`.

    rho = mean(w a (c - mu)) / sqrt(mean(w (c - mu)^2)), mu = mean(w c).
    Source: "Beyond Top Activations" (arXiv 2506.07985), the importance-corrected estimator.
    """
    w, mu, square, a, product = np.moveaxis(moments, -1, 0)
    variance = square - 2 * mu**2 + mu**2 * w
    covariance = product - mu * a
    sd = np.sqrt(variance)
    rho = covariance / sd
    slope = -rho / (2 * variance)
    gradient = [slope * mu**2, -a / sd + slope * (2 * mu * w - 4 * mu), slope, -mu / sd, 1 / sd]
    return rho, np.stack(np.broadcast_arrays(*gradient), axis=-1)
