"""Simulated raters of drawn images."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.crowd.arrays import IntArray


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
    present: NDArray[np.bool_], image: IntArray, n_raters: int, raters: Raters, rng: np.random.Generator
) -> IntArray:
    """Return how many of n_raters say yes to each draw (..., n); draws of one image share their votes.

    present (..., n): whether the drawn image has the concept; image (..., n): which image it is. Votes of
    equal images in one row are equal; rows are asked separately.
    """
    chance = np.where(present, 1 - raters.miss, raters.false_alarm)
    fresh = rng.binomial(n_raters, chance)
    return np.take_along_axis(fresh, first_places(image), axis=-1)


def first_places(image: IntArray) -> IntArray:
    """Return, for each draw (..., n), the first place in its row where the same image was drawn."""
    rows = image.reshape(-1, image.shape[-1])
    order = np.argsort(rows, axis=1, kind="stable")
    ordered = np.take_along_axis(rows, order, axis=1)
    new = np.ones_like(ordered, dtype=bool)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    starts = np.maximum.accumulate(np.where(new, np.arange(rows.shape[1]), 0), axis=1)
    places = np.empty_like(order)
    np.put_along_axis(places, order, np.take_along_axis(order, starts, axis=1), axis=1)
    return places.reshape(image.shape)
