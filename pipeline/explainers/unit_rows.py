"""Rows of a file, each a text for a unit, to the explanations of the selected units."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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

COMPOSITION = "composition"
UNIT = re.compile(r"([+-]?[0-9]+)(\.0*)?")
INDEX = re.compile(r"\[(\d+)\]")
SHOWN = 20


@dataclass(frozen=True)
class Fixes:
    """What mends a file, by the explainer's own settings: the ends of the messages, each a sentence."""

    unit: str
    layer: str
    duplicate: str


@dataclass(frozen=True)
class UnitRows:
    """A file's rows, all cells stripped text; a row's index is its place in the file ("line 3").

    `layer_column` is None where the file holds one layer. `composed`: the rows' column `composition` is
    JSON of pipeline.composition. `why_blank` says for a place why its row has no description; `why_absent`
    says of a `{unit}`, as the file counts, why it has no row. `usual_first_unit` is what the layout counts
    from, whatever `first_unit` is set to.
    """

    path: Path
    rows: pd.DataFrame
    unit_column: str
    description_column: str
    layer_column: str | None = None
    first_unit: Literal[0, 1] = 0
    composed: bool = False
    why_blank: Mapping[str, str] = field(default_factory=dict)
    why_absent: str = ""
    usual_first_unit: Literal[0, 1] = 0
    notes: tuple[str, ...] = ()


def match_units(
    table: UnitRows,
    units: Sequence[int],
    n_units: int,
    *,
    layer: str,
    method: str,
    on_duplicate: Literal["stop", "first"],
    fixes: Fixes,
) -> Explanations:
    """Return the explanations of `units`, of a layer of `n_units`, that a file's rows give.

    With a layer column only the rows of `layer` count; `mlp[1]` and `mlp.1` are one name. Every row of the
    layer is checked, also those of other units than `units`. A unit without a row, or whose description is
    blank, is unexplained with that reason. `on_duplicate="first"` keeps a unit's first row that has a
    description. Other columns are kept; one named as a column of every explainer gets the prefix `file_`.

    Raises AssayError, with the place, for a layer without rows, a unit that is no whole number or is outside
    the layer, and a second row of a unit.
    """
    units = require_selection(units, n_units)
    first_unit = table.first_unit
    rows, notes = _of_layer(table, layer, fixes)
    numbers = [_whole(text, table, str(place), fixes) for place, text in rows[table.unit_column].items()]
    places = [f"{table.path}, {place}" for place in rows.index]
    require_units(numbers, n_units, places, _range_fix(numbers, n_units, first_unit), first_unit=first_unit)
    if on_duplicate == "stop":
        require_one_row_each(numbers, places, method, fixes.duplicate)
    rows = rows.assign(**{table.unit_column: np.array(numbers, dtype=np.int64) - first_unit})
    kept = _first_described(rows, table)
    described = kept[(kept[table.description_column] != "") & kept[table.unit_column].isin(units)]
    notes += _repeat_notes(len(rows) - len(kept), table) + _counting_notes(numbers, table)
    return assemble(
        method, units, _renamed(described, table), _reasons(units, kept, table), [*table.notes, *notes]
    )


def counted(count: int, thing: str) -> str:
    """Return a count with its noun: `1 row`, `2 rows`."""
    return f"{count} {thing}" + ("" if count == 1 else "s")


def listed(names: Sequence[str]) -> str:
    """Return names in quotes, the first 20 of them."""
    shown = ", ".join(f"'{name}'" for name in names[:SHOWN])
    return shown + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


def _of_layer(table: UnitRows, layer: str, fixes: Fixes) -> tuple[pd.DataFrame, list[str]]:
    column, rows = table.layer_column, table.rows
    if column is None:
        return rows, []
    present = list(dict.fromkeys(rows[column]))
    names = [name for name in present if _dotted(name) == _dotted(layer)]
    if not names:
        raise AssayError(
            f"{table.path} has no row of layer '{layer}' in column '{column}'; its layers are "
            f"{listed(present)}. {fixes.layer}"
        )
    own = rows[rows[column].isin(names)]
    others = len(rows) - len(own)
    layers = counted(len(present) - len(names), "other layer")
    left = f"{table.path.name}: {counted(others, 'row')} of {layers} left out"
    return own, [left] if others else []


def _dotted(layer: str) -> str:
    """Return a layer's name with the item of a Sequential as `.1`: methods that eval a path write `[1]`."""
    return INDEX.sub(r".\1", layer)


def _whole(text: str, table: UnitRows, place: str, fixes: Fixes) -> int:
    match = UNIT.fullmatch(text)
    if match is None:
        raise AssayError(
            f"{table.path}, {place}: '{text}' in column '{table.unit_column}' is not a whole number; "
            f"{fixes.unit}"
        )
    return int(match[1])


def _range_fix(numbers: Sequence[int], n_units: int, first_unit: int) -> str:
    other = 1 - first_unit
    if numbers and other <= min(numbers) and max(numbers) < other + n_units:
        return f"All units of the file fit if it counts from {other}: set explainer.first_unit={other}."
    return "Check that the file belongs to this model and layer."


def _first_described(rows: pd.DataFrame, table: UnitRows) -> pd.DataFrame:
    """Return one row a unit, the first that has a description."""
    blank = rows[table.description_column] == ""
    return pd.concat([rows[~blank], rows[blank]]).drop_duplicates(table.unit_column)


def _repeat_notes(repeats: int, table: UnitRows) -> list[str]:
    if not repeats:
        return []
    whose = "its unit" if repeats == 1 else "their units"
    rows = counted(repeats, "row")
    return [f"{table.path.name}: {rows} left out, {whose} had another row (on_duplicate=first)"]


def _counting_notes(numbers: Sequence[int], table: UnitRows) -> list[str]:
    """Note units that seem to count from 1: all from 1 to the last, or any without 0 in such a layout."""
    first, last = min(numbers), max(numbers)
    without_gap = last >= 2 and set(numbers) == set(range(1, last + 1))
    if table.first_unit == 1 or first == 0 or not (without_gap or table.usual_first_unit == 1):
        return []
    run = f"units run from {first} to {last} without 0"
    return [f"{table.path.name}: {run}; if they count from 1, set explainer.first_unit=1"]


def _renamed(rows: pd.DataFrame, table: UnitRows) -> pd.DataFrame:
    used = (table.unit_column, table.description_column, table.layer_column)
    own = OWN_COLUMNS if table.composed else (*OWN_COLUMNS, COMPOSITION)
    columns = {"unit": rows[table.unit_column], "description": rows[table.description_column]}
    for name in rows.columns:
        if name not in used:
            kept = f"file_{name}" if name in own else name
            while kept in columns:
                kept = f"file_{kept}"
            columns[kept] = rows[name]
    return pd.DataFrame(columns).reset_index(drop=True)


def _reasons(units: Sequence[int], kept: pd.DataFrame, table: UnitRows) -> dict[int, str]:
    place_of = dict(zip(kept[table.unit_column], kept.index, strict=True))
    blank = set(kept[table.unit_column][kept[table.description_column] == ""])
    name = table.path.name
    why = table.why_absent or f"no row in {name}"
    absent = [unit for unit in units if unit not in place_of]
    reasons = {unit: why.replace("{unit}", str(unit + table.first_unit)) for unit in absent}
    for unit in (unit for unit in units if unit in blank):
        place = str(place_of[unit])
        reasons[unit] = f"{table.why_blank.get(place, 'blank description')} ({name}, {place})"
    return reasons
