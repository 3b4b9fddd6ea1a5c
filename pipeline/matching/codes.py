"""Codes of images, dense or sparse, and attributes: what a matcher may be given, and what fires.

A latent fires at an image where its code is above 0: negative codes of a signed SAE do not fire, and
neither do explicit zeros of a sparse matrix.
"""

from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from pipeline.errors import AssayError

BoolArray: TypeAlias = NDArray[np.bool_]
FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
Sparse: TypeAlias = "sp.csr_array[Any]"
Codes: TypeAlias = "ArrayLike | sp.sparray | sp.spmatrix"


def firing(codes: Codes, name: str = "codes") -> Sparse:
    """Return where the codes (N, D) are above 0, as a sparse bool (N, D), indices sorted.

    Raises AssayError for another shape, an empty one, and NaN or infinity, naming the place.
    """
    if sp.issparse(codes):
        found = positive(codes, name)
        return _sparse(np.ones(found.nnz, dtype=np.bool_), found.indices, found.indptr, found.shape)
    array = _dense(codes, name)
    fires = array if array.dtype == np.bool_ else array > 0
    flat = np.flatnonzero(fires)
    n_rows, n_columns = fires.shape
    starts = np.searchsorted(flat, np.arange(n_rows + 1) * n_columns)
    return _sparse(np.ones(len(flat), dtype=np.bool_), flat % n_columns, starts, fires.shape)


def without_dead(fires: Sparse) -> tuple[IntArray, Sparse]:
    """Return the latents that fire at least once, (D',) in order, and their columns of fires, (N, D')."""
    alive = np.flatnonzero(np.bincount(fires.indices, minlength=fires.shape[1]))
    place = np.zeros(fires.shape[1], dtype=fires.indices.dtype)
    place[alive] = np.arange(len(alive))
    shape = fires.shape[0], len(alive)
    return alive, _sparse(fires.data, place[fires.indices], fires.indptr, shape)


def positive(codes: Codes, name: str = "codes") -> Sparse:
    """Return the codes (N, D) that are above 0, sparse, in float64, indices sorted, none twice.

    Raises AssayError as `firing`.
    """
    if not sp.issparse(codes):
        array = _dense(codes, name)
        found = firing(array, name)
        rows = np.repeat(np.arange(len(array)), np.diff(found.indptr))
        values = array[rows, found.indices].astype(np.float64)
        return _sparse(values, found.indices, found.indptr, found.shape)
    matrix = sp.csr_array(codes, copy=True)
    _check_shape(matrix.shape, name)
    matrix.sum_duplicates()
    wrong = ~np.isfinite(matrix.data)
    if wrong.any():
        entry = int(wrong.argmax())
        row = int(np.searchsorted(matrix.indptr, entry, side="right")) - 1
        raise _not_finite(name, row, matrix.indices[entry], matrix.data[entry])
    fires = matrix.data > 0
    starts = np.concatenate([[0], np.cumsum(fires)])[matrix.indptr]
    values = matrix.data[fires].astype(np.float64)
    return _sparse(values, matrix.indices[fires], starts, matrix.shape)


def attribute_matrix(attributes: ArrayLike, n_images: int) -> BoolArray:
    """Return attributes (N, A) of 0 and 1 as bool; AssayError for another N, no attribute, or a value."""
    array = np.asarray(attributes)
    if array.ndim != 2 or len(array) != n_images or array.shape[1] == 0:
        raise AssayError(
            f"attributes have shape {array.shape}; expected ({n_images}, A): a row for each row of the codes"
        )
    if array.dtype == np.bool_:
        return array
    wrong = (array != 0) & (array != 1)
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise AssayError(f"attributes[{row}, {column}] is {array[row, column]}; an attribute is 0 or 1")
    return np.asarray(array != 0)


def columns_of(codes: "sp.csc_array[Any]", latents: IntArray) -> NDArray[Any]:
    """Return the columns `latents` (L,) of sparse codes (N, D), as dense rows (L, N).

    Raises AssayError for a latent that the codes lack.
    """
    n_images, n_latents = codes.shape
    check_latents(latents, n_latents)
    rows = np.zeros((len(latents), n_images), dtype=codes.dtype)
    for row, latent in zip(rows, latents, strict=True):
        inside = slice(codes.indptr[latent], codes.indptr[latent + 1])
        row[codes.indices[inside]] = codes.data[inside]
    return rows


def check_latents(latents: IntArray, n_latents: int) -> None:
    """Raise AssayError where a latent is not in 0 .. n_latents - 1."""
    wrong = (latents < 0) | (latents >= n_latents)
    if wrong.any():
        raise AssayError(
            f"a coalition holds latent {latents[wrong][0]}, but the codes have {n_latents} latents; "
            "give the codes of the SAE that was matched"
        )


def _dense(codes: Codes, name: str) -> NDArray[Any]:
    array = np.asarray(codes)
    _check_shape(array.shape, name)
    if array.dtype.kind not in "buif":
        raise AssayError(f"{name} have the type {array.dtype}; codes are numbers or booleans")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        row, column = np.argwhere(~np.isfinite(array))[0]
        raise _not_finite(name, row, column, array[row, column])
    return array


def _not_finite(name: str, row: Any, column: Any, value: Any) -> AssayError:
    return AssayError(f"{name}[{row}, {column}] is {value}; every code must be a finite number")


def _check_shape(shape: tuple[int, ...], name: str) -> None:
    if len(shape) != 2 or 0 in shape:
        raise AssayError(f"{name} have shape {shape}; expected (N, D): images, latents, at least one of each")


def _sparse(values: NDArray[Any], indices: Any, indptr: Any, shape: tuple[int, int]) -> Sparse:
    matrix = sp.csr_array((values, indices, indptr), shape=shape)
    matrix.has_canonical_format = True
    return matrix
