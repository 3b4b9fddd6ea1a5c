"""The images on which each unit is most active."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pipeline.explainers.explanations import Columns
from pipeline.explainers.similarities.cosines import unit_blocks


def most_active(activations: Columns, units: Sequence[int], top: int) -> NDArray[np.intp]:
    """Return the min(top, N) most active images of `units` by falling activation, (B, u).

    Of equal activations the lower image index comes first.
    """
    size = min(top, activations.shape[0])
    images = np.empty((size, len(units)), dtype=np.intp)
    for block, rows in unit_blocks(activations, units):
        for place, row in enumerate(rows, block.start):
            images[:, place] = _largest(row, size)
    return images


def _largest(values: NDArray[np.floating], size: int) -> NDArray[np.intp]:
    threshold = np.partition(values, len(values) - size)[len(values) - size]
    above = np.flatnonzero(values > threshold)
    level = np.flatnonzero(values == threshold)[: size - len(above)]
    return np.concatenate([above[np.argsort(-values[above], kind="stable")], level])
