"""The images on which each unit is most active."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pipeline.explainers.explanations import Columns
from pipeline.explainers.similarities.cosines import unit_blocks
from pipeline.seeds import generator


def most_active(activations: Columns, units: Sequence[int], top: int) -> NDArray[np.intp]:
    """Return the min(top, N) most active images of `units` by falling activation, (B, u).

    Of equal activations the lower image index comes first; but images at a unit's lowest activation come in
    one fixed random order. A unit that fires on fewer than B images is filled up with such, and the first
    of a folder are often all of one class.
    """
    n_images = activations.shape[0]
    size = min(top, n_images)
    order = generator(0, "images at the lowest activation", n_images).permutation(n_images)
    images = np.empty((size, len(units)), dtype=np.intp)
    for block, rows in unit_blocks(activations, units):
        for place, row in enumerate(rows, block.start):
            images[:, place] = _largest(row, size, order)
    return images


def _largest(values: NDArray[np.floating], size: int, order: NDArray[np.int64]) -> NDArray[np.intp]:
    threshold = np.partition(values, len(values) - size)[len(values) - size]
    above = np.flatnonzero(values > threshold)
    level = np.flatnonzero(values == threshold)
    if threshold == values.min():
        level = level[np.argsort(order[level])]
    level = level[: size - len(above)]
    return np.concatenate([above[np.argsort(-values[above], kind="stable")], level])
