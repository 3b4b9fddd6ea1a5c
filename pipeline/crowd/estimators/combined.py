"""What assay recommends: the disattenuated estimate, or the difference where the concept is rare."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pipeline.crowd.arrays import FloatArray
from pipeline.crowd.estimators import disattenuated
from pipeline.crowd.estimators.estimating import Estimate, estimate
from pipeline.crowd.estimators.sample import Population, Sample

RARE = 0.03
UNCERTAIN = 0.2
UNCERTAIN_IF_BLIND = 0.3
BLIND = 0.02

BoolArray = NDArray[np.bool_]


@dataclass(frozen=True)
class Combined:
    """estimate (...,): the recommended one, its interval about the truth.

    presence (...,): the estimated share of images with the concept. uncertain, rare_or_blind: see
    `combined`. disattenuated, difference: the two it is made of.
    """

    estimate: Estimate
    presence: FloatArray
    uncertain: BoolArray
    rare_or_blind: BoolArray
    disattenuated: Estimate
    difference: Estimate


def combined(
    sample: Sample,
    population: Population,
    *,
    confidence: float = 0.95,
    interval: Literal["delta", "bootstrap"] = "delta",
    rng: np.random.Generator | None = None,
) -> Combined:
    """Return the disattenuated estimate with its interval, and what else where that cannot be relied on.

    The disattenuated estimate is unbiased where it counts and noisy where it has little to count. So
    it is replaced by the difference estimate, which leans on the scorer, where the share of images
    with the concept is `uncertain`: its standard error is above .2 of itself, or .3 where the scorer is
    blind and little to lean on. The interval is widened to hold both estimates' intervals where that is so,
    or the share is below .03 or above .97 (rare). `rare_or_blind` says that it is widened, or that the
    scorer is blind to more than .02 of the presence. All three are read off the draws, the ratings and the
    scorer's probabilities; docs/coverage.md has the measured coverage with and without the flag.
    """
    one = estimate("disattenuated", sample, population, confidence=confidence, interval=interval, rng=rng)
    other = estimate("difference", sample, population, confidence=confidence, interval=interval, rng=rng)
    presence, error = _presence(sample, population)
    blind = ~(population.blind <= BLIND)
    uncertain = ~(error <= np.where(blind, UNCERTAIN_IF_BLIND, UNCERTAIN) * presence)
    widened = uncertain | ~((presence >= RARE) & (presence <= 1 - RARE))
    chosen = uncertain | ~np.isfinite(one.rho)
    low = np.where(widened, np.fmin(one.low, other.low), one.low)
    high = np.where(widened, np.fmax(one.high, other.high), one.high)
    found = replace(
        one,
        rho=np.where(chosen, other.rho, one.rho),
        std_error=np.where(chosen, other.std_error, one.std_error),
        df=np.where(chosen, other.df, one.df),
        low=low,
        high=high,
        influence=np.where(chosen[..., None], other.influence, one.influence),
    )
    return Combined(found, presence, uncertain, widened | blind, one, other)


def _presence(sample: Sample, population: Population) -> tuple[FloatArray, FloatArray]:
    """Return the estimated share of images with the concept, and its standard error, (...,)."""
    left = disattenuated.terms(sample, population)
    share = left[..., 2, 0] * population.mean + left[..., 0, :].mean(axis=-1)
    return share, left[..., 0, :].std(axis=-1) / np.sqrt(left.shape[-1])
