"""Counting |target and latent| for many targets and all latents, sparse or dense.

Both forms count the same whole numbers in float64, so a matcher gives the same result with either.
"""

from typing import Protocol

import numpy as np
import scipy.sparse as sp

from pipeline.matching.codes import BoolArray, FloatArray, IntArray, Sparse

DENSE_FROM = 0.1
"""Share of latents that fire from which products of dense matrices are the faster form."""

ENTRIES = 1 << 18
IMAGES = 1 << 11
MATMUL_FROM = 0.1


class Overlaps(Protocol):
    """Where D latents fire on N images; n_firing (D,) counts the images of each.

    scores_at_once: counts (R, D) of about this size are the fastest: in the cache, or large enough to share
    the cost of making a matrix dense.
    """

    n_firing: FloatArray
    scores_at_once: int

    def images_of(self, latents: IntArray) -> tuple[IntArray, IntArray]:
        """Return the images at which latents (R,) fire, as pairs: place in `latents`, image."""

    def add(self, counts: FloatArray, target: IntArray, image: IntArray, sign: float) -> None:
        """Add sign to counts (R, D) at every latent that fires, for each cell (target, image)."""


def overlaps(fires: Sparse) -> Overlaps:
    """Return the form of counting that suits the density of fires (N, D)."""
    dense = fires.nnz >= DENSE_FROM * fires.shape[0] * fires.shape[1]
    return DenseOverlaps(fires) if dense and fires.nnz else SparseOverlaps(fires)


def target_counts(own: Overlaps, targets: BoolArray) -> FloatArray:
    """Return |target and latent| of targets (T, N) with every latent, (T, D)."""
    counts = np.zeros((len(targets), len(own.n_firing)))
    target, image = np.nonzero(targets)
    own.add(counts, target, image, 1.0)
    return counts


def f_beta(counts: FloatArray, n_targets: IntArray, n_firing: FloatArray, betas: FloatArray) -> FloatArray:
    """Return F_beta of every latent for T targets, (T, D): (1 + b^2) counts / (b^2 n_targets + n_firing).

    counts (T, D), n_targets (T,), n_firing (D,), betas (T,). A latent that never fires has 0.
    """
    squares = betas * betas
    scores = counts * (1 + squares)[:, None]
    scores /= np.maximum(n_firing, 1) + (squares * n_targets)[:, None]
    return scores


class SparseOverlaps:
    """Counts by walking through the latents that fire at each image.

    They lie in segments of one width, the mean number at an image, filled up with a latent that never fires:
    a walk is a few rows of a table for each image. That latent is the last of D + 1, and its counts stay 0.
    """

    scores_at_once = 1 << 18

    def __init__(self, fires: Sparse) -> None:
        n_images, n_latents = fires.shape
        lengths, width = np.diff(fires.indptr), max(-(-fires.nnz // n_images), 1)
        self._first = np.concatenate([[0], np.cumsum(-(-lengths // width))])
        self._segments = np.full((self._first[-1], width), n_latents)
        shift = self._first[:-1] * width - fires.indptr[:-1]
        self._segments.reshape(-1)[np.arange(fires.nnz) + np.repeat(shift, lengths)] = fires.indices
        by_latent = fires.T.tocsr()
        self._images = by_latent.indices.astype(np.int64)
        self._starts = np.append(by_latent.indptr, fires.nnz)
        self.n_firing = np.diff(self._starts).astype(np.float64)

    def images_of(self, latents: IntArray) -> tuple[IntArray, IntArray]:
        """Return the images of latents (R,); see `Overlaps`."""
        place, entry = entries(self._starts, latents)
        return place, self._images[entry]

    def add(self, counts: FloatArray, target: IntArray, image: IntArray, sign: float) -> None:
        """Add to counts (R, D + 1) in place; see `Overlaps`."""
        flat, offset = counts.reshape(-1), target * counts.shape[1]
        n_cells = max(ENTRIES // self._segments.shape[1], 1)
        for start in range(0, len(target), n_cells):
            cell, segment = entries(self._first, image[start : start + n_cells])
            latents = self._segments[segment]
            latents += offset[start : start + n_cells][cell][:, None]
            np.add.at(flat, latents.reshape(-1), sign)
        counts[:, -1] = 0


class DenseOverlaps:
    """Counts by products of matrices, a block of images at a time."""

    scores_at_once = 1 << 22

    def __init__(self, fires: Sparse) -> None:
        self._fires = np.zeros(fires.shape, dtype=np.bool_)
        self._fires[np.repeat(np.arange(fires.shape[0]), np.diff(fires.indptr)), fires.indices] = True
        self._by_latent = np.ascontiguousarray(self._fires.T)
        self.n_firing = np.count_nonzero(self._by_latent, axis=1).astype(np.float64)

    def images_of(self, latents: IntArray) -> tuple[IntArray, IntArray]:
        """Return the images of latents (R,); see `Overlaps`."""
        place, image = np.nonzero(self._by_latent[latents])
        return place, image

    def add(self, counts: FloatArray, target: IntArray, image: IntArray, sign: float) -> None:
        """Add to counts (R, D) in place; see `Overlaps`."""
        used, column = np.unique(image, return_inverse=True)
        for start in range(0, len(used), IMAGES):
            images = used[start : start + IMAGES]
            inside = (column >= start) & (column < start + len(images))
            cells = sp.csr_array(
                (np.ones(inside.sum(), dtype=np.float32), (target[inside], column[inside] - start)),
                shape=(len(counts), len(images)),
            )
            filled = cells.nnz >= MATMUL_FROM * len(counts) * len(images)
            found = (cells.toarray() if filled else cells) @ self._fires[images].astype(np.float32)
            counts += sign * found


def entries(starts: IntArray, rows: IntArray) -> tuple[IntArray, IntArray]:
    """Return the entries of some rows of a table as pairs: place in `rows`, entry.

    Row r has the entries starts[r] to starts[r + 1] - 1.
    """
    first = starts[rows]
    lengths = starts[rows + 1] - first
    ends = np.cumsum(lengths)
    place = np.repeat(np.arange(len(rows)), lengths)
    return place, np.arange(len(place)) + np.repeat(first - (ends - lengths), lengths)
