"""Codes and embeddings as real numbers, for the metrics that do not ask what fires.

Negative codes keep their value here; explicit zeros of a sparse matrix are zeros like any other.
"""

import math
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from pipeline.errors import AssayError
from pipeline.matching.codes import BoolArray, Codes, FloatArray, Sparse

RealCodes: TypeAlias = "FloatArray | Sparse"

DENSE_FROM = 0.1
"""Share of non-zero codes from which a product of dense matrices is the faster one."""


def real_codes(codes: Codes) -> RealCodes:
    """Return codes (N, D) in float64, sparse or dense, whichever suits their density.

    A sparse result has sorted indices and no stored zero. Raises AssayError for another shape, an empty
    one, a value that is no finite number, naming the place.
    """
    if sp.issparse(codes):
        sparse = sparse_codes(codes)
        return sparse.toarray() if sparse.nnz >= DENSE_FROM * math.prod(sparse.shape) else sparse
    dense = finite(codes, "codes")
    return dense if np.count_nonzero(dense) >= DENSE_FROM * dense.size else sp.csr_array(dense)


def sparse_codes(codes: Codes) -> Sparse:
    """Return codes (N, D) in float64, sparse, without stored zeros, sorted; errors as `real_codes`."""
    if not sp.issparse(codes):
        return sp.csr_array(finite(codes, "codes"))
    found = sp.csr_array(codes, dtype=np.float64, copy=True)
    _check_shape(found.shape, "codes")
    found.sum_duplicates()
    bad = ~np.isfinite(found.data)
    if bad.any():
        entry = int(bad.argmax())
        row = int(np.searchsorted(found.indptr, entry, side="right")) - 1
        raise _not_finite("codes", row, int(found.indices[entry]), found.data[entry])
    found.eliminate_zeros()
    return found


def finite(values: Codes, name: str) -> FloatArray:
    """Return an array (N, d) in float64; AssayError for another shape or a value that is not finite."""
    array = np.asarray(values)
    if array.dtype.kind not in "buif":
        raise AssayError(f"{name} have the type {array.dtype}; give numbers")
    _check_shape(array.shape, name)
    array = array.astype(np.float64, copy=False)
    bad = ~np.isfinite(array)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise _not_finite(name, row, column, array[row, column])
    return array


def embeddings_of(embeddings: ArrayLike, n_images: int) -> FloatArray:
    """Return embeddings (N, d) in float64; AssayError unless there is one for each of the N codes."""
    array = finite(embeddings, "embeddings")
    if len(array) != n_images:
        raise AssayError(
            f"embeddings have {len(array)} rows and codes {n_images}; give one row an image to both"
        )
    return array


def unit_rows(values: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Return the rows (N, d) at length 1, and which are all zero (N,); those stay zero."""
    scale, zero = _scales(np.einsum("nd,nd->n", values, values))
    return values * scale[:, None], zero


def unit_sparse_rows(values: Sparse) -> tuple[Sparse, BoolArray]:
    """Return sparse rows (N, d) at length 1, as `unit_rows`."""
    rows = np.repeat(np.arange(values.shape[0]), np.diff(values.indptr))
    scale, zero = _scales(np.bincount(rows, values.data**2, values.shape[0]).astype(np.float64))
    return sp.csr_array((values.data * scale[rows], values.indices, values.indptr), shape=values.shape), zero


def _scales(squares: FloatArray) -> tuple[FloatArray, BoolArray]:
    zero = np.asarray(squares == 0)
    return 1.0 / np.sqrt(np.where(zero, 1.0, squares)), zero


def _check_shape(shape: tuple[int, ...], name: str) -> None:
    if len(shape) != 2 or 0 in shape:
        raise AssayError(f"{name} have shape {shape}; expected two axes, a row an image, none of them empty")


def _not_finite(name: str, row: Any, column: Any, value: Any) -> AssayError:
    return AssayError(f"{name}[{row}, {column}] is {value}; every value must be a finite number")
