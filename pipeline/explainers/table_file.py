"""CSV and TSV files as people publish them: rows of stripped text."""

import csv
import io
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd

from pipeline.delimited import DELIMITERS, first_record, records
from pipeline.errors import AssayError
from pipeline.explainers.text_file import read_text

ADVICE = (
    "a text with a quote at its start needs quotes around it, and each quote inside it doubled: "
    '"""stop"" sign"'
)
JSON_ADVICE = (
    "JSON in a cell needs quotes around it, and each quote inside it doubled: "
    '"{""and"": [""circle"", ""red""]}"'
)
COMPOSED = re.compile(r'\{\s*"(and|or|not|linear)"')
"""How a composition begins (pipeline.composition)."""


def read_rows(path: Path, missing: Callable[[Sequence[str]], str]) -> pd.DataFrame:
    """Return a file's rows as stripped text, indexed by the line (from 1) on which each starts ("line 2").

    The first line that is not blank names the columns; comma, tab and semicolon are told apart by it. Rows
    without any text are dropped; a row with fewer cells than columns is filled with blanks. No text means a
    missing value: `nan`, `null`, `none`, `true` and `NA` are words. `missing` says which column a header
    lacks, or "".

    Raises AssayError, with the line that an editor shows, for a missing column, two columns of one name, a
    row with more cells than columns, a quote that is not closed, and a file without rows or not UTF-8.
    """
    text = read_text(path, "explainer.path")
    delimiter = _delimiter(text, missing)
    advice = JSON_ADVICE if COMPOSED.search(_unreadable(text, delimiter)) else ADVICE
    found = records(text, delimiter, str(path), advice, skip_initial_space=True)
    line, header = next(found, (1, []))
    names = [name.strip() or f"column_{place}" for place, name in enumerate(header, 1)]
    _require_columns(names, missing, path, line)
    cells = {f"line {line}": _cells(record, len(names), path, line) for line, record in found}
    if not cells:
        raise AssayError(f"{path} has a header and no row below it; give it one row a unit")
    return pd.DataFrame(list(cells.values()), index=list(cells), columns=names, dtype="str")


def _unreadable(text: str, delimiter: str) -> str:
    """Return the row of a text that no CSV can hold, as it stands in the file; "" where there is none."""
    lines = list(io.StringIO(text, newline=""))
    reader = csv.reader(lines, delimiter=delimiter, strict=True, skipinitialspace=True)
    begin = 0
    try:
        for _ in reader:
            begin = reader.line_num
    except csv.Error:
        return "".join(lines[begin : reader.line_num])
    return ""


def _cells(record: Sequence[str], n_columns: int, path: Path, line: int) -> list[str]:
    cells = [cell.strip() for cell in record]
    if any(cells[n_columns:]):
        columns = "1 column" if n_columns == 1 else f"{n_columns} columns"
        bare = any(COMPOSED.match(cell) for cell in cells)
        raise AssayError(
            f"{path}, line {line}: {len(cells)} cells, but the header names {columns}. "
            + (JSON_ADVICE if bare else "Put quotes around a text that holds the delimiter.")
        )
    return (cells + [""] * n_columns)[:n_columns]


def _delimiter(text: str, missing: Callable[[Sequence[str]], str]) -> str:
    """Return the delimiter that finds all the needed columns, else the one that finds most columns."""
    headers = {mark: first_record(text, mark, skip_initial_space=True) for mark in DELIMITERS}
    for mark, header in headers.items():
        if not missing(header):
            return mark
    return max(DELIMITERS, key=lambda mark: len(headers[mark]))


def _require_columns(
    names: Sequence[str], missing: Callable[[Sequence[str]], str], path: Path, line: int
) -> None:
    if not names:
        raise AssayError(f"{path} is empty; its first line must name the columns")
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise AssayError(f"{path}, line {line}: two columns are named '{repeated[0]}'; rename one")
    if lack := missing(names):
        raise AssayError(f"{path}, line {line}: {lack}")
