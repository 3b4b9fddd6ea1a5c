"""What every format is turned into: rows of cells under the column names of MTurk's batch results."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class File:
    """A file's bytes and the name by which reports call it."""

    source: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Row:
    """A row or record: its place in the file from 1, its cells, and why it cannot be used ("": it can)."""

    number: int
    cells: Mapping[str, str]
    fault: str = ""


@dataclass(frozen=True)
class Sheet:
    """A file's rows, to be gone through any number of times.

    `columns`: all names that any row may have. `single`: a row is one rating, in no slot. `as_asked`:
    answers are numbered as inputs are, and those that were not given are not there.
    """

    format: str
    columns: frozenset[str]
    rows: Iterable[Row]
    single: bool = False
    notes: tuple[str, ...] = ()
    as_asked: bool = False


def sheet_of_records(format: str, rows: list[Row], notes: tuple[str, ...] = ()) -> Sheet:
    """Return a sheet whose columns are all names that its rows have."""
    return Sheet(format, frozenset(name for row in rows for name in row.cells), rows, notes=notes)
