"""Arrays as the crowd functions take them: float64, of one shape, every value finite."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pipeline.errors import AssayError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


def vector(name: str, values: ArrayLike, length: int | None = None) -> FloatArray:
    """Return `values` as a float64 vector (length,).

    Raises AssayError, with the argument's name, where it is empty, has another shape, or holds
    NaN or infinity.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or (length is not None and len(array) != length):
        raise AssayError(f"{name} has shape {array.shape}; expected ({'N' if length is None else length},)")
    if len(array) == 0:
        raise AssayError(f"{name} is empty; give at least one value")
    if not np.isfinite(array).all():
        first = int(np.flatnonzero(~np.isfinite(array))[0])
        raise AssayError(f"{name}[{first}] is {array[first]}; every value must be finite")
    return array


def is_constant(values: FloatArray) -> bool:
    """Say whether all values are the same float: a test that rounding cannot fool."""
    return bool(values.min() == values.max())


def standardised(values: FloatArray) -> FloatArray:
    """Return (values - mean) / sd with the population sd, (N,); all NaN where values are constant.

    Values are divided by the largest magnitude first, so neither huge nor tiny ones overflow.
    """
    if is_constant(values):
        return np.full_like(values, np.nan)
    scaled = values / np.abs(values).max()
    centred = scaled - scaled.mean()
    return np.asarray(centred / np.sqrt(np.mean(centred**2)), dtype=np.float64)
