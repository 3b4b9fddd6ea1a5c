"""Cosines of images and concepts, which are never held as a whole, and scores a block of them gives."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.explainers.explanations import Columns, column_blocks

BLOCK_BYTES = 1 << 26


@dataclass(frozen=True, eq=False)
class Cosines:
    """The cosines (N, T) of images (N, d) and texts (T, d) of unit length, computed a block at a time."""

    images: NDArray[np.floating]
    texts: NDArray[np.floating]

    @property
    def shape(self) -> tuple[int, int]:
        """(N, T)."""
        return len(self.images), len(self.texts)

    def rows(self, images: slice) -> NDArray[Any]:
        """Return the cosines (n, T) of some images, in the type of the embeddings."""
        return np.asarray(self.images[images] @ self.texts.T)

    def columns(self, concepts: slice) -> NDArray[Any]:
        """Return the cosines (N, t) of some concepts, in the type of the embeddings."""
        return np.asarray(self.images @ self.texts[concepts].T)

    def of_images(self, images: NDArray[np.intp]) -> "Cosines":
        """Return the cosines of those images alone."""
        return Cosines(self.images[images], self.texts)


@dataclass(frozen=True, eq=False)
class Block:
    """Scores (u, t) float64 of some of the scored units (a slice of their order) and concepts."""

    units: slice
    concepts: slice
    scores: NDArray[np.float64]


def slices(n: int, bytes_each: int) -> Iterator[slice]:
    """Yield slices of n things that take 64 MiB together at most, or are one."""
    size = max(1, BLOCK_BYTES // max(1, bytes_each))
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def unit_blocks(activations: Columns, units: Sequence[int]) -> Iterator[tuple[slice, NDArray[Any]]]:
    """Yield slices of `units` with their activations (u, N), contiguous, float32 or float64."""
    for block in column_blocks(activations.shape[0], len(units)):
        columns = np.asarray(activations[:, list(units[block])])
        yield block, np.ascontiguousarray(columns.T, dtype=np.result_type(columns, np.float32))
