"""CKNNA: do codes and embeddings have the same neighbours? One number an SAE.

One of the checks that the SAE track checks in turn: `sanity` says whether it tells trained SAEs from others.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from pipeline.errors import AssayError
from pipeline.matching.codes import BoolArray, Codes, FloatArray, IntArray, Sparse
from pipeline.matching.real_codes import RealCodes, embeddings_of, real_codes, unit_rows, unit_sparse_rows

NO_ALIGNMENT = "the unbiased HSIC of {} with themselves is not positive"

CELLS_AT_ONCE = 1 << 23
ROUNDING = 1e-12
"""An HSIC of this share of the mean square of its matrix is 0 but for rounding."""
ROOT_TICKS = 2.0**20
"""Cosines are rounded to 2^-40, about 1e-12: below it lies how a machine adds up, not a neighbour.

Rows of this length instead of 1 have products in units of 2^-40; a power of two costs no digit.
"""


@dataclass(frozen=True)
class Cknna:
    """CKNNA of codes with embeddings.

    value: the alignment; 0 where it is not defined, and reason then says why (else ""). cross, of_codes,
    of_embeddings: the three HSIC that it is made of. n_zero_codes, n_zero_embeddings: images all zero.
    """

    value: float
    reason: str
    cross: float
    of_codes: float
    of_embeddings: float
    n_zero_codes: int
    n_zero_embeddings: int


def cknna(codes: Codes, embeddings: ArrayLike, k: int = 10) -> Cknna:
    """Return the alignment of codes (N, D) with embeddings (N, d) on their common k nearest neighbours.

    Both are scaled to rows of length 1 (so a neighbour is by cosine); K and L are their Gram matrices.
    Cell (i, j) of a matrix counts where j is among the k nearest neighbours of i in both; for K with
    itself, in K. With the unbiased HSIC of such matrices,
        CKNNA = HSIC(K, L) / sqrt(HSIC(K, K) HSIC(L, L)).
    An unbiased HSIC may be negative; where one of those below is not positive the value is 0 and the
    reason says so. Cosines equal to 2^-40 are ties, and the lowest index goes first; a row of zeros has no
    neighbours. A block of rows at a time: memory grows with N, not with its square. float64.
    Raises AssayError for shapes that do not fit, values that are not finite, N < 4, and k not in 1 .. N - 1.
    Source: Huh et al., "The Platonic Representation Hypothesis" (arXiv 2405.07987), appendix A; the HSIC is
    that of Song et al., "Feature Selection via Dependence Maximization" (JMLR 13, 2012), equation 5.
    """
    real = real_codes(codes)
    n_images = real.shape[0]
    _check(n_images, k)
    of_codes, zero_codes = _neighbours_of(real, k)
    of_embeddings, zero_embeddings = _neighbours_of(embeddings_of(embeddings, n_images), k)
    cross = unbiased_hsic(*_common(of_codes, of_embeddings))
    own = {
        "codes": unbiased_hsic(of_codes, of_codes),
        "embeddings": unbiased_hsic(of_embeddings, of_embeddings),
    }
    sizes = (_mean_square(each) for each in (of_codes, of_embeddings))
    wrong = [name for (name, hsic), size in zip(own.items(), sizes, strict=True) if hsic <= ROUNDING * size]
    return Cknna(
        value=0.0 if wrong else cross / math.sqrt(own["codes"] * own["embeddings"]),
        reason=NO_ALIGNMENT.format(" and of ".join(wrong)) if wrong else "",
        cross=cross,
        of_codes=own["codes"],
        of_embeddings=own["embeddings"],
        n_zero_codes=int(zero_codes.sum()),
        n_zero_embeddings=int(zero_embeddings.sum()),
    )


def unbiased_hsic(first: Sparse, second: Sparse) -> float:
    """Return the unbiased HSIC of two matrices (N, N) whose diagonals are zero, N at least 4.

    1 / (N (N - 3)) (tr(KL) + sum(K) sum(L) / ((N - 1) (N - 2)) - 2 sum(KL) / (N - 2)), Song et al.,
    equation 5; the matrices need not be symmetric.
    """
    n = first.shape[0]
    trace = float(first.multiply(second.T).sum())
    product = float(np.asarray(first.sum(axis=0)).ravel() @ np.asarray(second.sum(axis=1)).ravel())
    total = float(first.sum()) * float(second.sum()) / ((n - 1) * (n - 2))
    return (trace + total - 2.0 * product / (n - 2)) / (n * (n - 3))


def _mean_square(matrix: Sparse) -> float:
    """Return the trace's part of the HSIC of a symmetric matrix with itself, the scale of its rounding."""
    n = matrix.shape[0]
    return float(matrix.data @ matrix.data) / (n * (n - 3))


def _check(n_images: int, k: int) -> None:
    if n_images < 4:
        raise AssayError(f"there are {n_images} images; CKNNA needs at least 4")
    if int(k) != k or not 1 <= k < n_images:
        raise AssayError(f"k is {k}; with {n_images} images give a whole number from 1 to {n_images - 1}")


def _neighbours_of(values: RealCodes, k: int) -> tuple[Sparse, BoolArray]:
    """Return the cosines of each row with its k nearest others, (N, N), and which rows are zero, (N,).

    Cosines of 0 are stored too; a row of zeros has none.
    """
    if isinstance(values, np.ndarray):
        unit, zero = unit_rows(values)
        unit *= ROOT_TICKS
        return _neighbours(lambda rows: unit[rows] @ unit.T, zero, k), zero
    sparse, zero = unit_sparse_rows(values)
    sparse *= ROOT_TICKS
    columns = sp.csr_array(sparse.T)
    return _neighbours(lambda rows: (sparse[rows] @ columns).toarray(), zero, k), zero


def _neighbours(similar_to: Callable[[slice], FloatArray], zero: BoolArray, k: int) -> Sparse:
    n_images = len(zero)
    at_once = max(CELLS_AT_ONCE // n_images, 1)
    found: list[tuple[IntArray, IntArray, FloatArray]] = []
    for start in range(0, n_images, at_once):
        similar = similar_to(slice(start, start + at_once))
        np.rint(similar, out=similar)
        own = np.arange(len(similar))
        similar[own, start + own] = -np.inf
        chosen = _nearest(similar, k)
        chosen[zero[start : start + at_once]] = False
        rows, others = np.nonzero(chosen)
        found.append((start + rows, others, similar[rows, others]))
    rows, others, cosines = (np.concatenate(each) for each in zip(*found, strict=True))
    return _matrix(cosines / ROOT_TICKS**2, rows, others, n_images)


def _nearest(similar: FloatArray, k: int) -> BoolArray:
    """Return which cells (R, N) are the k greatest of their row, those of the lowest index on ties."""
    border = np.partition(similar, similar.shape[1] - k, axis=1)[:, similar.shape[1] - k, None]
    chosen = np.asarray(similar >= border)
    crowded = np.flatnonzero(chosen.sum(axis=1) > k)
    tied = similar[crowded] == border[crowded]
    room = k - (chosen[crowded] & ~tied).sum(axis=1, keepdims=True)
    chosen[crowded] &= ~tied | (np.cumsum(tied, axis=1) <= room)
    return chosen


def _common(first: Sparse, second: Sparse) -> tuple[Sparse, Sparse]:
    """Return both matrices at the cells that both store, with the values of each."""
    n = first.shape[0]
    found = np.intersect1d(_cells(first), _cells(second), assume_unique=True, return_indices=True)
    rows, columns = np.divmod(found[0], n)
    return _matrix(first.data[found[1]], rows, columns, n), _matrix(second.data[found[2]], rows, columns, n)


def _cells(matrix: Sparse) -> IntArray:
    rows = np.repeat(np.arange(matrix.shape[0], dtype=np.int64), np.diff(matrix.indptr))
    return rows * matrix.shape[1] + matrix.indices


def _matrix(values: FloatArray, rows: IntArray, columns: IntArray, n: int) -> Sparse:
    """Return a sparse (n, n) from cells sorted by row and column, zeros kept."""
    starts = np.searchsorted(rows, np.arange(n + 1))
    return sp.csr_array((values, columns, starts), shape=(n, n))
