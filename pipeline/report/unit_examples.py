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

    Equal activations rank by row; where all are equal, no image is at the top or in the middle. median:
    those whose rank is nearest to the middle rank, of two equally near the more active. random: of all
    others, by a stream of its own for (seed, names).
    """
    order = np.argsort(-np.asarray(activation, dtype=np.float64), kind="stable")
    n_images = len(order)
    places = np.arange(n, n_images)
    distance = np.abs(places - (n_images - 1) / 2)
    middle = np.sort(places[np.argsort(distance, kind="stable")[:n]])
    left, top = np.setdiff1d(places, middle), order[:n]
    if is_constant(activation):
        left, top, middle = np.arange(n_images), order[:0], middle[:0]
    rng = generator(seed, "inspect", *names)
    drawn = np.sort(rng.choice(left, size=min(n, len(left)), replace=False))
    rank = np.empty(n_images, dtype=np.int64)
    rank[order] = np.arange(1, n_images + 1)
    return Examples(top, order[middle], order[drawn], rank)


def is_constant(activation: ArrayLike) -> bool:
    """Say whether all images have one activation (N,)."""
    array = np.asarray(activation)
    return bool(array.min() == array.max())
