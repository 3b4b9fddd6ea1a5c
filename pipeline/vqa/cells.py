"""Images in the cells of tables, read and decoded when called."""

import csv
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
from PIL import Image

from pipeline.datasets.decoding import Undecodable, decode
from pipeline.datasets.parquet_rows import Cell, RowGroups, encoded_in, path_in
from pipeline.errors import AssayError

LONGEST_CELL = 2**31 - 1
UNREADABLE = (Undecodable, OSError, LookupError, ValueError, TypeError, csv.Error, pa.ArrowException)


@dataclass(frozen=True)
class ParquetImage:
    """The image of row `row`, from 0, of a Parquet file; a path in the cell is looked up in `folders`.

    The row group of the last file used stays in memory, as one row group holds many images.
    """

    path: Path
    row: int
    column: str
    folders: tuple[Path, ...]

    def __call__(self) -> Image.Image:
        """Return the image in RGB; AssayError naming its place where it cannot be read."""
        return _image(self._cell, self.folders, f"{self.path}, row {self.row}, column {self.column!r}")

    def _cell(self) -> Cell:
        return _rows(self.path, self.column, self.path.stat().st_mtime_ns, os.getpid()).cell(self.row)


@dataclass(frozen=True)
class TsvImage:
    """The image of the record that lies in `length` bytes from `offset` of a TSV file, in cell `position`."""

    path: Path
    line: int
    offset: int
    length: int
    position: int
    column: str
    folders: tuple[Path, ...]

    def __call__(self) -> Image.Image:
        """Return the image in RGB; AssayError naming its place where it cannot be read."""
        return _image(self._cell, self.folders, f"{self.path}, line {self.line}, column {self.column!r}")

    def _cell(self) -> Cell:
        with self.path.open("rb") as stream:
            stream.seek(self.offset)
            record = stream.read(self.length).decode("utf-8-sig")
        with cells_of_any_length():
            cells = next(csv.reader(io.StringIO(record, newline=""), delimiter="\t"), [])
        return cells[self.position].strip()


@dataclass(frozen=True)
class FileImage:
    """An image file that the cell at `place` names."""

    path: Path
    place: str

    def __call__(self) -> Image.Image:
        """Return the image in RGB; AssayError naming its place where it cannot be read."""
        return _image(self.path.read_bytes, (), f"{self.place}: {self.path}")


@contextmanager
def cells_of_any_length() -> Iterator[None]:
    """Let csv read cells of any length, as base64 images are above its limit."""
    before = csv.field_size_limit(LONGEST_CELL)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _image(cell: Callable[[], Cell], folders: tuple[Path, ...], place: str) -> Image.Image:
    try:
        return decode(_encoded(cell(), folders))
    except UNREADABLE as error:
        reason = str(error) or type(error).__name__
        raise AssayError(f"{place}: the image cannot be read: {reason}; mend or remove the row") from error


def _encoded(cell: Cell, folders: tuple[Path, ...]) -> bytes:
    path = path_in(cell, folders)
    if path is None:
        return encoded_in(cell)
    if not any(path.resolve().is_relative_to(folder.resolve()) for folder in folders):
        raise Undecodable(f"{path} lies outside {', '.join(map(str, folders))}")
    return path.read_bytes()


@lru_cache(maxsize=1)
def _rows(path: Path, column: str, changed: int, process: int) -> RowGroups:
    return RowGroups(path, column)
