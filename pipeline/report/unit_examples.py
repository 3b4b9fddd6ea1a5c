"""Which images stand for a unit: its most active, those around its median, and random ones."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pipeline.seeds import generator

Rows = NDArray[np.intp]


@dataclass(frozen=True)
class Examples:
    """Rows of images, each in one group at most, most active first. rank (N,): 1 is the most active."""

    top: Rows
    median: Rows
    random: Rows
    rank: NDArray[np.int64]


def examples(activation: ArrayLike, n: int, *names: object, seed: int = 0) -> Examples:
    """Choose up to n images a group by a unit's activation (N,): top, then median, then random.

    Equal activations rank by row. median: those whose rank is nearest to the middle rank, of two equally near
    the more active. random: of all others, by a stream of its own for (seed, names).
    """
    order = np.argsort(-np.asarray(activation, dtype=np.float64), kind="stable")
    n_images = len(order)
    places = np.arange(n, n_images)
    distance = np.abs(places - (n_images - 1) / 2)
    middle = np.sort(places[np.argsort(distance, kind="stable")[:n]])
    left = np.setdiff1d(places, middle)
    rng = generator(seed, "inspect", *names)
    drawn = np.sort(rng.choice(left, size=min(n, len(left)), replace=False))
    rank = np.empty(n_images, dtype=np.int64)
    rank[order] = np.arange(1, n_images + 1)
    return Examples(order[:n], order[middle], order[drawn], rank)
