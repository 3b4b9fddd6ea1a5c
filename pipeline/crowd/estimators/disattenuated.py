"""The difference estimator of the true correlation: corrected for the attenuation that few votes cause."""

import numpy as np

from pipeline.crowd.arrays import FloatArray
from pipeline.crowd.estimators.difference import known_means, prediction_of, tuning
from pipeline.crowd.estimators.sample import Population, Sample

MOST_SCALE = 10.0
"""Votes that move priors by less than a tenth of the way say too little to be scaled up."""


def scale(known: Population) -> FloatArray:
    """Return how much larger than the posterior's the truth's departure from the prior is, (...,), 1 to 10.

    With r the reliability at prior s, E[posterior - s] = r E[c - s] at each s; so the mean of s (1 - s)
    over that of r s (1 - s) undoes the attenuation where c departs from s in proportion to s (1 - s).
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        found = known.spread / known.reliable
    return np.clip(np.where(np.isfinite(found), found, 1.0), 1.0, MOST_SCALE)


def terms(sample: Sample, population: Population | None) -> FloatArray:
    """Return w (y - power s), w a (y - power s), power: (..., 3, n), y = s + scale (c - s)."""
    known, s, w = known_means(population), prediction_of(sample), sample.weight
    power = tuning(sample, known)[..., None]
    left = w * ((1 - power) * s + scale(known)[..., None] * (sample.presence - s))
    return np.stack([left, sample.activation * left, np.broadcast_to(power, w.shape)], axis=-2)


def correlation(moments: FloatArray, population: Population | None) -> tuple[FloatArray, FloatArray]:
    """Return rho (...,) and its gradient (..., 3).

    rho = covariance / sqrt(mu (1 - mu)), since the true presence is 0 or 1. NaN where mu is outside (0, 1).
    """
    known = known_means(population)
    left, product, power = np.moveaxis(moments, -1, 0)
    mu = power * known.mean + left
    variance = mu * (1 - mu)
    sd = np.sqrt(variance)
    rho = (power * known.product + product) / sd
    return rho, np.stack([-rho * (1 - 2 * mu) / (2 * variance), 1 / sd, np.zeros_like(sd)], axis=-1)
