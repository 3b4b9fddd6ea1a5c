"""Explanations from a CSV or TSV file, as people publish them."""

import csv
import difflib
import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from pipeline.errors import AssayError
from pipeline.explainers.explanations import (
    OWN_COLUMNS,
    Explanations,
    assemble,
    require_one_row_each,
    require_selection,
    require_units,
)
from pipeline.explainers.text_file import read_text

DELIMITERS = (",", "\t", ";")
UNIT = re.compile(r"([+-]?[0-9]+)(\.0*)?")
SHOWN = 20


def explain(
    units: Sequence[int],
    n_units: int,
    *,
    layer: str,
    path: Path,
    method: str,
    unit_column: str = "unit",
    description_column: str = "description",
    layer_column: str | None = None,
    first_unit: Literal[0, 1] = 0,
    on_duplicate: Literal["stop", "first"] = "stop",
) -> Explanations:
    """Read one method's texts for `units` of a layer of `n_units` from a file.

    The first line that is not blank names the columns; comma, tab and semicolon are told apart by it.
    No text means a missing value: `nan`, `null`, `none`, `true` and `NA` are words. With `layer_column`
    only the rows of `layer` count. Every row of the layer is checked, also those of other units than
    `units`. A unit whose description is blank, or that has no row, is unexplained with that reason.
    `on_duplicate="first"` keeps a unit's first row that has a description. Other columns are kept as
    text; one named method, unit or description is kept with the prefix `file_`.

    Raises AssayError, with the line that an editor shows, for what cannot be read: a missing column, a
    row with more cells than columns, a quote that is not closed, a unit that is no whole number or is
    outside the layer, a second row of a unit, a layer without rows, a file that is not UTF-8.
    """
    units = require_selection(units, n_units)
    needed = [unit_column, description_column, *([layer_column] if layer_column else [])]
    every = parse(read_text(path, "explainer.path"), path, needed)
    rows, notes = _of_layer(every, layer, layer_column, path)
    numbers = [_whole(text, path, line, unit_column) for line, text in rows[unit_column].items()]
    places = [f"{path}, line {line}" for line in rows.index]
    require_units(numbers, n_units, places, _range_fix(numbers, n_units, first_unit), first_unit=first_unit)
    if on_duplicate == "stop":
        require_one_row_each(numbers, places, method, _duplicate_fix(layer_column))
    rows = rows.assign(**{unit_column: np.array(numbers, dtype=np.int64) - first_unit})
    kept, repeats = _first_described(rows, unit_column, description_column)
    described = kept[(kept[description_column] != "") & kept[unit_column].isin(units)]
    notes += _repeat_notes(repeats, path) + _counting_notes(numbers, first_unit, path)
    return assemble(
        method,
        units,
        _renamed(described, unit_column, description_column, layer_column),
        _reasons(units, kept, unit_column, description_column, path),
        notes,
    )


def parse(text: str, path: Path, needed: Sequence[str]) -> pd.DataFrame:
    """Return a file's rows as stripped text, indexed by the line on which each row starts (from 1).

    Rows without any text are dropped; a row with fewer cells than columns is filled with blanks.
    """
    delimiter = _delimiter(text, needed)
    records = _records(text, path, delimiter)
    header_line, header = next(records, (1, []))
    names = [name or f"column_{place}" for place, name in enumerate(header, 1)]
    _require_columns(names, needed, path, header_line)
    lines, cells = [], []
    for line, record in records:
        if len(record) > len(names) and any(record[len(names) :]):
            raise AssayError(
                f"{path}, line {line}: {len(record)} cells, but the header names {len(names)} columns. "
                "Put quotes around a text that holds the delimiter."
            )
        lines.append(line)
        cells.append((record + [""] * len(names))[: len(names)])
    if not lines:
        raise AssayError(f"{path} has a header and no row below it; give it one row a unit")
    return pd.DataFrame(cells, index=pd.Index(lines, name="line"), columns=names, dtype="str")


def _records(text: str, path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(
        io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True, strict=True
    )
    line = 1
    try:
        for record in reader:
            stripped = [cell.strip() for cell in record]
            if any(stripped):
                yield line, stripped
            line = reader.line_num + 1
    except csv.Error as error:
        raise AssayError(
            f"{path}, line {line}: the row that starts here cannot be read ({error}). A text with a quote "
            'at its start needs quotes around it, and each quote inside it doubled: """stop"" sign".'
        ) from None


def _delimiter(text: str, needed: Sequence[str]) -> str:
    """Return the delimiter that finds all the needed columns, else the one that finds most columns."""
    headers = {delimiter: _header(text, delimiter) for delimiter in DELIMITERS}
    for delimiter, header in headers.items():
        if set(needed) <= set(header):
            return delimiter
    return max(DELIMITERS, key=lambda delimiter: len(headers[delimiter]))


def _header(text: str, delimiter: str) -> list[str]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True)
    try:
        records = ([cell.strip() for cell in record] for record in reader)
        return next((record for record in records if any(record)), [])
    except csv.Error:
        return []


def _require_columns(names: Sequence[str], needed: Sequence[str], path: Path, line: int) -> None:
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise AssayError(f"{path}, line {line}: two columns are named '{repeated[0]}'; rename one")
    for name in needed:
        if name not in names:
            raise AssayError(_missing_column(name, names, path, line))


def _missing_column(name: str, names: Sequence[str], path: Path, line: int) -> str:
    if not names:
        return f"{path} is empty; its first line must name the columns, among them '{name}'"
    folded = {other.lower(): other for other in names}
    nearest = difflib.get_close_matches(name.lower(), folded, n=3, cutoff=0.4)
    hint = f" Nearest: {', '.join(repr(folded[match]) for match in nearest)}." if nearest else ""
    return (
        f"{path}, line {line}: no column '{name}' among {_listed(names)}.{hint} Name the columns in the "
        "first line, or set explainer.unit_column, explainer.description_column or explainer.layer_column."
    )


def _of_layer(
    rows: pd.DataFrame, layer: str, layer_column: str | None, path: Path
) -> tuple[pd.DataFrame, list[str]]:
    if layer_column is None:
        _require_one_layer(rows, path)
        return rows, []
    present = list(dict.fromkeys(rows[layer_column]))
    if layer not in present:
        raise AssayError(
            f"{path} has no row of layer '{layer}' in column '{layer_column}'; its layers are "
            f"{_listed(present)}. Write the layer there as the model names it."
        )
    own = rows[rows[layer_column] == layer]
    others = len(rows) - len(own)
    notes = [f"{path.name}: {others} rows of {len(present) - 1} other layers left out"] if others else []
    return own, notes


def _require_one_layer(rows: pd.DataFrame, path: Path) -> None:
    for name in rows.columns:
        layers = list(dict.fromkeys(rows[name])) if name.lower() == "layer" else []
        if len(layers) > 1:
            raise AssayError(
                f"{path} mixes layers ({_listed(layers)}) in column '{name}'; "
                f"set explainer.layer_column={name}"
            )


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(f"'{name}'" for name in names[:SHOWN])
    return shown + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


def _whole(text: str, path: Path, line: object, column: str) -> int:
    match = UNIT.fullmatch(text)
    if match is None:
        raise AssayError(
            f"{path}, line {line}: '{text}' in column '{column}' is not a whole number; "
            "write the unit's index, or set explainer.unit_column to the column that holds it"
        )
    return int(match[1])


def _range_fix(numbers: Sequence[int], n_units: int, first_unit: int) -> str:
    other = 1 - first_unit
    if other <= min(numbers) and max(numbers) < other + n_units:
        return f"All units of the file fit if it counts from {other}: set explainer.first_unit={other}."
    return "Check that the file belongs to this model and layer."


def _duplicate_fix(layer_column: str | None) -> str:
    layered = "" if layer_column else " If the file mixes layers, set explainer.layer_column."
    return f"Remove one, or keep the first with explainer.on_duplicate=first.{layered}"


def _first_described(
    rows: pd.DataFrame, unit_column: str, description_column: str
) -> tuple[pd.DataFrame, int]:
    """Return one row a unit, the first that has a description, and how many rows were left out."""
    blank = rows[description_column] == ""
    kept = pd.concat([rows[~blank], rows[blank]]).drop_duplicates(unit_column)
    return kept, len(rows) - len(kept)


def _repeat_notes(repeats: int, path: Path) -> list[str]:
    if not repeats:
        return []
    return [f"{path.name}: {repeats} rows left out, their units had another row (on_duplicate=first)"]


def _counting_notes(numbers: Sequence[int], first_unit: int, path: Path) -> list[str]:
    last = max(numbers)
    if first_unit == 1 or last < 2 or set(numbers) != set(range(1, last + 1)):
        return []
    return [f"{path.name}: units run from 1 to {last} without 0; if they count from 1, set first_unit=1"]


def _renamed(
    rows: pd.DataFrame, unit_column: str, description_column: str, layer_column: str | None
) -> pd.DataFrame:
    extra = [name for name in rows.columns if name not in (unit_column, description_column, layer_column)]
    columns = {"unit": rows[unit_column], "description": rows[description_column]}
    columns |= {f"file_{name}" if name in OWN_COLUMNS else name: rows[name] for name in extra}
    return pd.DataFrame(columns).reset_index(drop=True)


def _reasons(
    units: Sequence[int], kept: pd.DataFrame, unit_column: str, description_column: str, path: Path
) -> dict[int, str]:
    line_of = dict(zip(kept[unit_column], kept.index, strict=True))
    blank = set(kept[unit_column][kept[description_column] == ""])
    reasons = {unit: f"no row in {path.name}" for unit in units if unit not in line_of}
    return reasons | {
        unit: f"blank description ({path.name}, line {line_of[unit]})" for unit in units if unit in blank
    }
