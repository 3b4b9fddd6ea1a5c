"""Correlation of a unit with a concept: from importance-sampled draws, and over all images."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pipeline.crowd.arrays import FloatArray, IntArray, is_constant, standardised, vector
from pipeline.errors import AssayError

BLOCK_VALUES = 1 << 22  # 32 MiB of float64
TOTAL_TOLERANCE = 1e-6


def importance_correlation(
    activation: ArrayLike, q: ArrayLike, draws: ArrayLike, concept: ArrayLike
) -> float:
    """Estimate the correlation over N images from n draws with replacement from q.

    activation (N,) and q (N,) over all images, q summing to 1; draws (n,) are image indices,
    repeats included; concept (n,) is the presence in [0, 1], aligned with draws. The activation is
    standardised over all N. The result is a ratio estimate: consistent, not unbiased, not confined
    to [-1, 1], and NaN where the activation or the drawn concept is constant.
    Raises AssayError for shapes that differ, NaN or infinity, an index outside 0..N-1, a q that is
    negative, does not sum to 1, or is 0 at a drawn image.
    Source: "Beyond Top Activations" (arXiv 2506.07985), the importance-corrected estimator.
    """
    a = vector("activation", activation)
    chances = _chances(q, len(a))
    rows = _image_indices(draws, len(a))
    c = vector("concept", concept, len(rows))
    if not chances[rows].min() > 0:
        raise AssayError(
            f"q is 0 at image {rows[chances[rows].argmin()]}, which was drawn; draws come from q"
        )
    return drawn_correlation(standardised(a)[rows], importance_weights(chances[rows], len(a)), c)


def importance_weights(q: FloatArray, n_images: int) -> FloatArray:
    """Return the weights p/q (n,) of drawn images with chances q (n,), where p = 1/n_images."""
    return np.asarray((1 / n_images) / q, dtype=np.float64)


def drawn_correlation(activation: FloatArray, weight: FloatArray, concept: FloatArray) -> float:
    """Return the estimator on n draws: mean(w abar (c - mu)) / sd, where mu = mean(w c).

    activation (n,) is standardised over *all* images, weight (n,) is p/q, concept (n,) in [0, 1].
    NaN where the concept is constant or the activation is NaN (a constant unit).
    """
    if is_constant(concept):
        return float("nan")
    centred = concept - np.mean(weight * concept)
    variance = np.mean(weight * centred**2)
    if not variance > 0:
        return float("nan")
    return float(np.mean(weight * activation * centred) / np.sqrt(variance))


def correlation(activation: ArrayLike, concept: ArrayLike) -> float:
    """Return Pearson's correlation of activation (N,) and concept (N,); NaN where one is constant.

    Raises AssayError for shapes that differ, NaN or infinity.
    """
    a = vector("activation", activation)
    c = vector("concept", concept, len(a))
    return float(np.clip(np.mean(standardised(a) * standardised(c)), -1, 1))


def correlations(
    activations: NDArray[np.generic], concepts: NDArray[np.generic], block_values: int = BLOCK_VALUES
) -> FloatArray:
    """Return Pearson's correlations (U, T) of activations (N, U) with concepts (N, T), in float64.

    Rows are read in blocks of about `block_values` values, twice, so that memory-mapped arrays of
    any type stay on disk; constant columns give NaN. Raises AssayError for shapes that do not
    match, NaN or infinity.
    """
    if activations.ndim != 2 or concepts.ndim != 2 or len(activations) != len(concepts):
        raise AssayError(
            f"activations {activations.shape} and concepts {concepts.shape} must be (N, U) and (N, T)"
        )
    left, right = (
        _columns("activations", activations, block_values),
        _columns("concepts", concepts, block_values),
    )
    products = np.zeros((activations.shape[1], concepts.shape[1]))
    squares_left, squares_right = np.zeros(activations.shape[1]), np.zeros(concepts.shape[1])
    for rows in _blocks(len(activations), sum(products.shape), block_values):
        a, c = left.centred(activations[rows]), right.centred(concepts[rows])
        products += a.T @ c
        squares_left += np.einsum("nu,nu->u", a, a)
        squares_right += np.einsum("nt,nt->t", c, c)
    scale = np.sqrt(np.outer(squares_left, squares_right))
    undefined = left.constant[:, None] | right.constant[None, :]
    return np.clip(np.where(undefined, np.nan, products / np.where(undefined, 1, scale)), -1, 1)


@dataclass(frozen=True)
class _Columns:
    """Mean, largest magnitude and constancy of each column."""

    mean: FloatArray
    peak: FloatArray
    constant: NDArray[np.bool_]

    def centred(self, block: NDArray[np.generic]) -> FloatArray:
        """Return (values - mean) / peak of a block of rows."""
        return np.asarray(block.astype(np.float64) / self.peak - self.mean / self.peak)


def _columns(name: str, values: NDArray[np.generic], block_values: int) -> _Columns:
    n_images, n_columns = values.shape
    low, high = np.full(n_columns, np.inf), np.full(n_columns, -np.inf)
    mean = np.zeros(n_columns)
    for rows in _blocks(n_images, n_columns, block_values):
        block = values[rows].astype(np.float64)
        if not np.isfinite(block).all():
            row, column = np.argwhere(~np.isfinite(block))[0]
            raise AssayError(
                f"{name}[{rows.start + row}, {column}] is {block[row, column]}; it must be finite"
            )
        low, high = np.minimum(low, block.min(axis=0)), np.maximum(high, block.max(axis=0))
        mean += (block / n_images).sum(axis=0)
    peak = np.maximum(np.abs(low), np.abs(high))
    return _Columns(mean, np.where(peak > 0, peak, 1), low == high)


def _blocks(n_rows: int, n_columns: int, block_values: int) -> Iterator[slice]:
    step = max(1, block_values // max(1, n_columns))
    return (slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step))


def _chances(q: ArrayLike, n_images: int) -> FloatArray:
    chances = vector("q", q, n_images)
    if chances.min() < 0:
        raise AssayError(f"q[{chances.argmin()}] is {chances.min()}; a chance cannot be negative")
    if abs((total := float(chances.sum())) - 1) > TOTAL_TOLERANCE:
        raise AssayError(f"q sums to {total:.6g}; it must sum to 1 over all {n_images} images")
    return chances


def _image_indices(draws: ArrayLike, n_images: int) -> IntArray:
    rows = np.asarray(draws)
    if rows.ndim != 1 or len(rows) == 0 or rows.dtype.kind not in "iu":
        raise AssayError(f"draws has shape {rows.shape} and type {rows.dtype}; expected (n,) image indices")
    if rows.min() < 0 or rows.max() >= n_images:
        bad = rows[(rows < 0) | (rows >= n_images)][0]
        raise AssayError(f"draws holds {bad}; an image index is in 0..{n_images - 1}")
    return rows.astype(np.int64)
