"""Rows of CSV files that people made by hand or by spreadsheet."""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from pipeline.datasets.nearest import did_you_mean
from pipeline.errors import AssayError


@dataclass(frozen=True)
class Row:
    """One row: the line of the file it begins on, counted from 1, and its text by column."""

    line: int
    values: dict[str, str]


@dataclass(frozen=True)
class Sheet:
    """A CSV file: its column names in order, and its rows."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]


def read_sheet(path: Path, required: tuple[str, ...]) -> Sheet:
    """Read a comma-separated UTF-8 file with a header.

    A byte order mark, any line ends, quoted commas and newlines, and blank lines are taken; every
    value is text (`nan`, `null`, `true` are words), stripped of surrounding space. Raises
    AssayError naming file and line: not UTF-8, a missing or doubled column, a row of another length.
    """
    numbered = _numbered(path)
    line, header = next(numbered, (1, []))
    columns = tuple(header)
    _check_header(path, line, columns, required)
    return Sheet(columns, tuple(_row(path, line, columns, cells) for line, cells in numbered))


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise AssayError(f"{path}: byte {error.start} is not UTF-8; save the file as CSV in UTF-8") from error


def _numbered(path: Path) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(StringIO(_text(path), newline=""), strict=True)
    before = 0
    try:
        for cells in reader:
            stripped = [cell.strip() for cell in cells]
            if any(stripped):
                yield before + 1, stripped
            before = reader.line_num
    except csv.Error as error:
        raise AssayError(f"{path}, line {before + 1}: {error}; check the quotes of this row") from error


def _check_header(path: Path, line: int, columns: tuple[str, ...], required: tuple[str, ...]) -> None:
    if not columns:
        raise AssayError(f"{path} is empty; its first line must name the columns {', '.join(required)}")
    doubled = sorted({name for name in columns if columns.count(name) > 1})
    if doubled:
        raise AssayError(f"{path}, line {line}: the column {doubled[0]!r} stands there twice")
    for name in required:
        if name not in columns:
            raise AssayError(
                f"{path}, line {line}: no column {name!r}{did_you_mean(name, columns)}; "
                f"the columns are {', '.join(columns)}"
            )


def _row(path: Path, line: int, columns: tuple[str, ...], cells: list[str]) -> Row:
    if len(cells) != len(columns):
        raise AssayError(
            f"{path}, line {line}: {len(cells)} values for {len(columns)} columns; "
            "put a value that holds a comma in double quotes"
        )
    return Row(line, dict(zip(columns, cells, strict=True)))
