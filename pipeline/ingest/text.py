"""Bytes to text, delimited text to rows, JSON to values; what cannot be read is refused with its line."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.delimited import records
from pipeline.errors import AssayError
from pipeline.ingest.sheets import File, Row

BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
# Columns for the requester's upload: results have their names and may end before their cells.
MAY_LACK = frozenset({"Approve", "Reject"})


def decode(file: File) -> str:
    """Return a file's text: UTF-8, or UTF-16 with its mark; AssayError names the line otherwise."""
    mark, encoding = next((pair for pair in BOMS if file.data.startswith(pair[0])), (b"", "utf-8"))
    body = file.data[len(mark) :]
    try:
        text = body.decode(encoding)
    except UnicodeDecodeError as error:
        line = body[: error.start].decode(encoding, "ignore").count("\n") + 1
        raise AssayError(
            f"{file.source}, line {line}: not {encoding.upper()}; save the file as UTF-8 "
            '("CSV UTF-8" in a spreadsheet)'
        ) from None
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        raise AssayError(f"{file.source}, line {line}: a zero byte; this is not a text file")
    return text


def require_distinct(columns: Sequence[str], source: str) -> None:
    """Raise AssayError where two columns have one name."""
    named = [name for name in columns if name]
    if len(set(named)) < len(named):
        twice = next(name for name in named if named.count(name) > 1)
        raise AssayError(f"{source}: two columns are named {twice!r}; rename or remove one")


@dataclass(frozen=True)
class DelimitedRows:
    """The rows of a delimited text, by the line on which each starts; rows without text are none.

    A row of another length than `columns` has a fault. Going through it raises AssayError, with the
    line, for a quote that is not closed.
    """

    source: str
    text: str
    delimiter: str
    columns: tuple[str, ...]
    has_header: bool = True

    def __iter__(self) -> Iterator[Row]:
        """Read the rows."""
        skip = self.has_header
        advice = "download the file again, unchanged"
        for line, cells in records(self.text, self.delimiter, self.source, advice):
            if skip:
                skip = False
            else:
                fault = self._fault(len(cells))
                yield Row(line, dict(zip(self.columns, cells, strict=False)), fault)

    def _fault(self, n_cells: int) -> str:
        n_columns = len(self.columns)
        if n_cells == n_columns or (n_cells < n_columns and MAY_LACK.issuperset(self.columns[n_cells:])):
            return ""
        return f"another number of cells than columns: {n_cells} of {n_columns}; was the file cut off?"


def load_json(text: str) -> Any:
    """Return a JSON value; ValueError for what is no JSON, for a repeated name, and for absurd depth."""
    try:
        return json.loads(text, object_pairs_hook=_distinct)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def plain_text(value: Any) -> str:
    """Return a JSON or Parquet value as the text of a cell; nothing and NaN are blank."""
    if value is None or value != value:
        return ""
    text = value.isoformat() if hasattr(value, "isoformat") else str(value)
    # A lone half of a surrogate pair, which JSON allows, fits into no file.
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the name {next(n for n in names if names.count(n) > 1)!r} twice")
    return values
