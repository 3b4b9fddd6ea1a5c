"""Parquet files: their columns, and images inside them, one row group in memory at a time."""

import base64
import binascii
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.datasets.decoding import Undecodable
from pipeline.datasets.listing import listed
from pipeline.datasets.nearest import did_you_mean
from pipeline.errors import AssayError

BATCH = 64
LONGEST_PATH = 1024
Cell = dict[str, Any] | bytes | str | None


def parquet_files(root: Path) -> tuple[str, ...]:
    """Return the Parquet files below `root`, sorted, relative to it; AssayError if there are none."""
    files = listed(root, (".parquet",)).files
    if not files:
        raise AssayError(f"dataset.root: no *.parquet file below {root}")
    return files


def opened(path: Path) -> pq.ParquetFile:
    """Open a Parquet file; AssayError naming it if it is none or broken."""
    try:
        return pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        raise AssayError(f"{path} cannot be read as Parquet: {error}") from error


def check_column(path: Path, schema: pa.Schema, column: str, key: str) -> None:
    """Raise AssayError naming the config key and the nearest names if the file lacks the column."""
    if column not in schema.names:
        raise AssayError(
            f"{key}={column!r}: {path} has no such column{did_you_mean(column, schema.names)}; "
            f"the columns are {', '.join(schema.names)}"
        )


def values(path: Path, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Yield the values of some columns row by row, a batch of rows in memory at a time."""
    try:
        with opened(path) as file:
            for batch in file.iter_batches(batch_size=BATCH, columns=list(dict.fromkeys(columns))):
                yield from zip(*(batch.column(name).to_pylist() for name in columns), strict=True)
    except (pa.ArrowException, OSError) as error:
        raise AssayError(f"{path} cannot be read as Parquet: {error}") from error


def member_of(row: int, column: str) -> str:
    """Return how a manifest names a row: the row number, from 0, and the image column."""
    return f"{row}:{column}"


def row_of(member: str) -> int:
    """Return the row number that a manifest's member names."""
    return int(member.partition(":")[0])


def encoded_in(cell: Cell) -> bytes:
    """Return the encoded image that a cell holds: bytes, a struct with bytes, or base64 text.

    Raises Undecodable for an empty cell and for text that is no base64.
    """
    content = cell.get("bytes") if isinstance(cell, dict) else cell
    if content is None:
        raise Undecodable("the cell is empty")
    return _from_base64(content) if isinstance(content, str) else bytes(content)


def path_in(cell: Cell, folders: Sequence[Path]) -> Path | None:
    """Return the file that a cell names (text, or a struct without bytes) in the first folder that has it."""
    if isinstance(cell, dict):
        cell = None if cell.get("bytes") is not None else cell.get("path")
    if not isinstance(cell, str) or not cell or len(cell) > LONGEST_PATH or "\0" in cell:
        return None
    try:
        return next((folder / cell for folder in folders if (folder / cell).is_file()), None)
    except OSError:  # no name that this system can have, such as an image in base64
        return None


def _from_base64(text: str) -> bytes:
    body = text.partition(",")[2] if text.startswith("data:") else text
    try:
        return base64.b64decode("".join(body.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise Undecodable(f"{text[:40]!r} names no file and is no base64") from error


class RowGroups:
    """One column of a Parquet file, read by row number; keeps the last row group used."""

    def __init__(self, path: Path, column: str) -> None:
        self._file = opened(path)
        self._column = column
        groups = range(self._file.num_row_groups)
        self._ends = list(accumulate(self._file.metadata.row_group(i).num_rows for i in groups))
        self._group = -1
        self._cells: pa.ChunkedArray | None = None

    def cell(self, row: int) -> Cell:
        """Return the value of row `row`, from 0; IndexError beyond the last."""
        group = bisect_right(self._ends, row)
        if row < 0 or group == len(self._ends):
            raise IndexError(f"row {row}")
        if group != self._group or self._cells is None:
            self._cells = self._file.read_row_group(group, columns=[self._column]).column(self._column)
            self._group = group
        first = self._ends[group - 1] if group else 0
        value: Cell = self._cells[row - first].as_py()
        return value
