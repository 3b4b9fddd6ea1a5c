"""Prediction-powered: the scorer's moments over all images, corrected by the draws."""

import numpy as np

from pipeline.crowd.arrays import FloatArray
from pipeline.crowd.estimators.sample import Population, Sample
from pipeline.errors import AssayError


def terms(sample: Sample, population: Population | None) -> FloatArray:
    """Return w (c - power s), w (c^2 - power s^2), w a (c - power s), power: (..., 4, n).

    power is the `tuning`, constant over the draws; as a row of its own it reaches `correlation`.
    """
    s, w, a, c = prediction_of(sample), sample.weight, sample.activation, sample.presence
    power = tuning(sample, known_means(population))[..., None]
    rows = [w * (c - power * s), w * (c * c - power * s * s), w * a * (c - power * s)]
    return np.stack([*rows, np.broadcast_to(power, w.shape)], axis=-2)


def correlation(moments: FloatArray, population: Population | None) -> tuple[FloatArray, FloatArray]:
    """Return rho (...,) and its gradient (..., 4), the last of which (the tuning) is 0.

    Each moment M of c is power * mean over all N of M(s) + mean over the draws of w (M(c) - power M(s)).
    Source: A. Angelopoulos et al., "Prediction-powered inference", Science 382 (2023), and PPI++
    (arXiv 2311.01453) for the power tuning; here moment by moment.
    """
    known = known_means(population)
    of_c, of_square, of_product, power = np.moveaxis(moments, -1, 0)
    mu = power * known.mean + of_c
    variance = power * known.square + of_square - mu**2
    sd = np.sqrt(variance)
    rho = (power * known.product + of_product) / sd
    slope = -rho / (2 * variance)
    return rho, np.stack([-2 * mu * slope, slope, 1 / sd, np.zeros_like(sd)], axis=-1)


def tuning(sample: Sample, known: Population) -> FloatArray:
    """Return the power (...,) in [0, 1] that least variance of rho asks for; 1 where it cannot be told.

    It is the slope of the draws' part of c on that of s, along the gradient of rho at the prediction.
    """
    s, w, c = prediction_of(sample), sample.weight, sample.presence
    variance = known.square - known.mean**2
    with np.errstate(invalid="ignore", divide="ignore"):
        rho = known.product / np.sqrt(variance)
        along = sample.activation - (rho / np.sqrt(variance))[..., None] * (s - known.mean[..., None])
        of_s, of_c = w * along * s, w * along * c
        of_s = of_s - of_s.mean(axis=-1, keepdims=True)
        power = (of_s * of_c).sum(axis=-1) / (of_s * of_s).sum(axis=-1)
    return np.clip(np.where(np.isfinite(power), power, 1.0), 0.0, 1.0)


def prediction_of(sample: Sample) -> FloatArray:
    """Return the predictions (..., n); AssayError where there are none."""
    if sample.prediction is None:
        raise AssayError("the difference estimator needs the scorer's probability of each draw")
    return sample.prediction


def known_means(population: Population | None) -> Population:
    """Return the means over all images; AssayError where they are not known."""
    if population is None:
        raise AssayError(
            "the difference estimator needs the scorer's means over all images (population.parquet of the "
            "study); a study frozen without them takes estimator=importance"
        )
    return population
