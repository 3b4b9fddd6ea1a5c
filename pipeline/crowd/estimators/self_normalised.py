"""The weighted correlation with weights that sum to 1 (Hájek)."""

import numpy as np

from pipeline.crowd.arrays import FloatArray
from pipeline.crowd.estimators.importance import terms as terms
from pipeline.crowd.estimators.sample import Population


def correlation(moments: FloatArray, population: Population | None) -> tuple[FloatArray, FloatArray]:
    """Return rho (...,) and its gradient (..., 5): every moment divided by the mean weight.

    The activation's variance is known (1) and is not estimated.
    Source: J. Hájek (1971), in "Foundations of Statistical Inference", p. 236.
    """
    mu, square, a, product = np.moveaxis(moments[..., 1:] / moments[..., :1], -1, 0)
    variance = square - mu**2
    sd = np.sqrt(variance)
    rho = (product - mu * a) / sd
    slope = -rho / (2 * variance)
    by_mu, by_square, by_a, by_product = -a / sd - 2 * mu * slope, slope, -mu / sd, 1 / sd
    by_weight = -(by_mu * mu + by_square * square + by_a * a + by_product * product)
    gradient = np.stack([by_weight, by_mu, by_square, by_a, by_product], axis=-1)
    return rho, gradient / moments[..., :1]
