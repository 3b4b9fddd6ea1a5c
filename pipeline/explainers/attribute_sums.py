"""Sums of image weights over the images of each attribute."""

import numpy as np
from numpy.typing import NDArray

from pipeline.explainers.explanations import column_blocks

EXACT_COUNTS = 1 << 24
"""Up to here float32 holds every whole number."""


def attribute_sums(
    weights: NDArray[np.floating], attributes: NDArray[np.uint8 | np.bool_]
) -> NDArray[np.floating]:
    """Return the sum of weights (R, N) over the images of each attribute (N, A) of 0 and 1, (R, A).

    In the floats of `weights`. Whole numbers stay exact up to 2^53 in float64 and 2^24 in float32, whatever
    the order of summation. Memory beyond the result is one block of 64 MiB of attributes, or one column.
    """
    n_images, n_attributes = attributes.shape
    sums = np.empty((len(weights), n_attributes), dtype=weights.dtype)
    for columns in column_blocks(n_images, n_attributes, weights.dtype.itemsize):
        sums[:, columns] = weights @ attributes[:, columns].astype(weights.dtype)
    return sums


def attribute_counts(
    images: NDArray[np.uint8 | np.bool_], attributes: NDArray[np.uint8 | np.bool_]
) -> NDArray[np.float64]:
    """Return how many images of each set (R, N) have each attribute (N, A), (R, A)."""
    floats = np.float32 if len(attributes) < EXACT_COUNTS else np.float64
    return attribute_sums(images.astype(floats), attributes).astype(np.float64)


def require_attributes(attributes: NDArray[np.uint8], n_images: int, n_names: int) -> None:
    """Raise ValueError unless attributes are (N, A) of 0 and 1."""
    if attributes.shape != (n_images, n_names):
        raise ValueError(f"attributes {attributes.shape}: want {(n_images, n_names)}")
    if attributes.size and int(attributes.max()) > 1:
        raise ValueError(f"attributes are 0 or 1, and one is {attributes.max()}")
