"""Units, texts and images whose truth is known: synthetic ones, and those of a data set's attributes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from pipeline.crowd.arrays import FloatArray, standardised
from pipeline.errors import AssayError
from pipeline.seeds import generator

N_IMAGES = 50_000
CALIBRATIONS = ("calibrated", "over", "under")
LEAST_TRUTH = 0.05
FEWEST_POSITIVES = 10


@dataclass(frozen=True)
class Pair:
    """A unit and a text over N images: standardised activation, probability, presence; and their truth.

    rho: the correlation of activation and presence.
    """

    activation: FloatArray
    probability: FloatArray
    present: NDArray[np.bool_]
    rho: float


def synthetic_pair(
    rng: np.random.Generator,
    frequency: float,
    calibration: str,
    missed: float = 0.0,
    n_images: int = N_IMAGES,
) -> Pair:
    """Return a pair whose concept is on `frequency` of the images.

    The scorer sees evidence z, normal with sd 1 and mean 0, or d (uniform in [2, 4.5]) with the concept.
    With L the log odds that z means, its probability is expit(L) where `calibrated`; expit(.6 L + 1) where it
    is over-, expit(.7 L - 1.5) where it is under-confident. `missed` of the images with the concept look
    to it as if they had none. The unit fires on the concept (with a strength uniform in [.3, 2]), a
    little on the evidence, on one other concept (3% of the images), and at random. Raises AssayError for an
    unknown calibration.
    """
    if calibration not in CALIBRATIONS:
        raise AssayError(f"unknown calibration {calibration!r}; known: {', '.join(CALIBRATIONS)}")
    present = rng.random(n_images) < frequency
    blind = present & (rng.random(n_images) < missed)
    d = rng.uniform(2.0, 4.5)
    noise = rng.normal(0, 1, n_images)
    seen, shown = noise + d * (present & ~blind), noise + d * present
    log_odds = d * seen - d * d / 2 + logit(frequency)
    slope, offset = {"calibrated": (1.0, 0.0), "over": (0.6, 1.0), "under": (0.7, -1.5)}[calibration]
    other = (rng.random(n_images) < 0.03) * rng.exponential(1, n_images)
    fires = rng.uniform(0.3, 2.0) * present * rng.exponential(1, n_images)
    drive = rng.normal(0, 0.3, n_images) + rng.uniform(0, 0.15) * shown + fires + rng.uniform(0, 1.5) * other
    return pair_of(np.maximum(0, drive), expit(slope * log_odds + offset), present)


def pair_of(activation: FloatArray, probability: FloatArray, present: NDArray[np.bool_]) -> Pair:
    """Return the pair of activation, probability and presence, (N,) each; rho NaN where one is constant."""
    abar, mu = standardised(activation), float(present.mean())
    with np.errstate(invalid="ignore", divide="ignore"):
        rho = float(np.mean(abar * present) / np.sqrt(mu * (1 - mu)))
    return Pair(abar, probability, present, rho)


def synthetic_world(
    n_pairs: int, seed: int, calibration: str = "calibrated", n_images: int = N_IMAGES
) -> Iterator[Pair]:
    """Yield pairs of one scorer, whose concepts are on .001 to .1 of the images, log-uniform.

    Pairs with rho below .05 or fewer than 10 images with the concept are drawn again: a relative error
    means little there.
    """
    for number in range(n_pairs):
        rng = generator(seed, "synthetic world", calibration, number)
        while True:
            frequency = 10 ** rng.uniform(-3, -1)
            pair = synthetic_pair(rng, frequency, calibration, n_images=n_images)
            if pair.rho >= LEAST_TRUTH and pair.present.sum() >= FEWEST_POSITIVES:
                break
        yield pair


def world_of_arrays(
    activations: NDArray[np.generic],
    probabilities: NDArray[np.generic],
    truths: FloatArray,
    pairs: Sequence[tuple[int, int]],
) -> Iterator[Pair]:
    """Yield the pairs (column of activations (N, U), column of probabilities and truths (N, T)) with a truth.

    Left out: a text without truth (NaN), |rho| below .05, fewer than 10 images with the concept.
    """
    for unit, text in pairs:
        if np.isnan(truths[:, text]).any():
            continue
        pair = pair_of(
            np.asarray(activations[:, unit], dtype=np.float64),
            np.asarray(probabilities[:, text], dtype=np.float64),
            truths[:, text] > 0,
        )
        if abs(pair.rho) >= LEAST_TRUTH and pair.present.sum() >= FEWEST_POSITIVES:
            yield pair
