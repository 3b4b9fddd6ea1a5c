"""Simulated raters of drawn images."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from pipeline.crowd.arrays import FloatArray, IntArray

Keys = NDArray[np.uint64]


@dataclass(frozen=True)
class Raters:
    """How often they miss a concept that is there, and see one that is not."""

    miss: float
    false_alarm: float


RATERS = {
    "perfect": Raters(0.0, 0.0),
    "symmetric": Raters(0.23, 0.23),
    "asymmetric": Raters(0.17, 0.02),
}


def votes(
    present: NDArray[np.bool_], image: IntArray, n_raters: int, raters: Raters, key: Keys
) -> NDArray[np.int8]:
    """Return how many of n_raters say yes to each draw (..., n).

    present (..., n): whether the drawn image has the concept; image (..., n): which image it is. The votes
    are fixed by the image and the key (...,) of its pair and repeat, so draws of one image share them.
    """
    u = uniforms(image, key[..., None])
    # P(at least k say yes), k = 1 to n_raters, without and with the concept
    chances = np.array(
        [binom.sf(np.arange(n_raters), n_raters, p) for p in (raters.false_alarm, 1 - raters.miss)]
    )
    said = np.zeros(present.shape, dtype=np.int8)
    for without, with_ in chances.T:
        said += u < np.where(present, with_, without)
    return said


def uniforms(image: IntArray, key: Keys) -> FloatArray:
    """Return a number in [0, 1) for each image under a key: SplitMix64's mix of their sum.

    Source: G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
    """
    with np.errstate(over="ignore"):
        z = key + image.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return np.asarray((z >> np.uint64(11)) * 2.0**-53)


def keys(rng: np.random.Generator, n: int) -> Keys:
    """Return n keys for `votes`."""
    return rng.integers(2**64, size=n, dtype=np.uint64)
