"""U columns of N values, as rows (U, N), with what one sort of each tells."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pipeline.errors import AssayError

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Columns:
    """Values (U, N) in float64; every property is computed when first asked for."""

    values: FloatArray

    @cached_property
    def constant(self) -> BoolArray:
        """Whether all N values are the same float, (U,)."""
        return np.asarray(self.values.min(axis=1) == self.values.max(axis=1))

    @cached_property
    def order(self) -> IntArray:
        """The images from the largest value to the smallest, (U, N)."""
        return np.argsort(self.values, axis=1)[:, ::-1]

    @cached_property
    def descending(self) -> FloatArray:
        """The values in `order`, (U, N)."""
        return np.take_along_axis(self.values, self.order, axis=1)

    @cached_property
    def block_end(self) -> IntArray:
        """For each place of `order`, the last place that is tied with it, (U, N)."""
        places = np.where(self._ends_block, np.arange(self.values.shape[1]), self.values.shape[1])
        return np.minimum.accumulate(places[:, ::-1], axis=1)[:, ::-1]

    @cached_property
    def midranks(self) -> FloatArray:
        """Ranks from 1, the smallest, to N, (U, N); tied values share the mean of their ranks."""
        starts = np.roll(self._ends_block, 1, axis=1)
        block_start = np.maximum.accumulate(np.where(starts, np.arange(self.values.shape[1]), 0), axis=1)
        ranks = np.empty_like(self.values)
        middle = (block_start + self.block_end) / 2
        np.put_along_axis(ranks, self.order, self.values.shape[1] - middle, axis=1)
        return ranks

    @cached_property
    def _ends_block(self) -> BoolArray:
        ends = np.ones(self.values.shape, dtype=np.bool_)
        np.not_equal(self.descending[:, 1:], self.descending[:, :-1], out=ends[:, :-1])
        return ends

    def top(self, counts: IntArray) -> BoolArray:
        """Return which values are among the `counts` (U,) largest, (U, N), ties with the last one in."""
        cutoff = np.take_along_axis(self.descending, counts[:, None] - 1, axis=1)
        return np.asarray(self.values >= cutoff)


def columns(name: str, values: ArrayLike) -> Columns:
    """Return values (N,) or (N, U) as `Columns`; a vector is one column.

    Raises AssayError, with the argument's name and the place, for another shape, fewer than two
    images, no column, and NaN or infinity.
    """
    array = np.asarray(values, dtype=np.float64)
    rows = array[:, None] if array.ndim == 1 else array
    if rows.ndim != 2 or rows.shape[0] < 2 or rows.shape[1] == 0:
        raise AssayError(f"{name} has shape {array.shape}; expected (N,) or (N, U) with N of at least 2")
    refuse(name, rows, ~np.isfinite(rows), "every value must be finite")
    return Columns(np.ascontiguousarray(rows.T))


def concept_columns(values: ArrayLike) -> Columns:
    """Return concepts (N,) or (N, U) in [0, 1] as `Columns`; raises as `columns`, and outside [0, 1]."""
    found = columns("concepts", values)
    outside = (found.values < 0) | (found.values > 1)
    refuse("concepts", found.values.T, outside.T, "a concept's presence is in [0, 1]")
    return found


def refuse(name: str, rows: FloatArray, wrong: BoolArray, rule: str) -> None:
    """Raise AssayError with the first place of rows (N, U) where `wrong` (N, U) holds."""
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise AssayError(f"{name}[{row}, {column}] is {rows[row, column]}; {rule}")
