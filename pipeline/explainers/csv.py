"""Explanations from a CSV or TSV file, as people publish them."""

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pandas as pd

from pipeline.composition import from_json
from pipeline.errors import AssayError
from pipeline.explainers.explanations import Explanations, text_columns
from pipeline.explainers.table_file import COMPOSED, read_rows
from pipeline.explainers.unit_rows import COMPOSITION, Fixes, UnitRows, listed, match_units

ADDED = (COMPOSITION, "file_description")


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
    composition_column: str | None = None,
    first_unit: Literal[0, 1] = 0,
    on_duplicate: Literal["stop", "first"] = "stop",
) -> Explanations:
    """Read one method's texts for `units` of a layer of `n_units` from a file.

    What is read and how is in `table_file.read_rows` and `unit_rows.match_units`. With `composition_column`
    a row's composition (JSON of pipeline.composition), where not blank, is its explanation: the description
    is its text, and the file's own is kept as `file_description`; the description column may be absent.

    Raises AssayError, with the line, for what cannot be read, and for a file that mixes layers where
    `layer_column` is null.
    """
    needed = [unit_column, *([layer_column] if layer_column else [])]
    needed += [composition_column] if composition_column else [description_column]
    rows = read_rows(path, lambda names: _missing(names, needed))
    if layer_column is None:
        _require_one_layer(rows, path)
    if composition_column:
        _require_apart((unit_column, description_column, layer_column), composition_column, path)
        rows = _with_compositions(rows, path, description_column, composition_column)
    table = UnitRows(
        path,
        rows,
        unit_column,
        description_column,
        layer_column,
        first_unit,
        composed=composition_column is not None,
        notes=() if composition_column else _composition_notes(rows, path, needed),
    )
    fixes = _fixes(layer_column)
    return match_units(
        table, units, n_units, layer=layer, method=method, on_duplicate=on_duplicate, fixes=fixes
    )


def _require_apart(columns: Sequence[str | None], composition_column: str, path: Path) -> None:
    for name in columns:
        if name in (composition_column, *ADDED):
            raise AssayError(
                f"the settings name column '{name}' of {path} twice, or it is one that compositions add "
                f"({', '.join(ADDED)}); rename it in the file"
            )


def _with_compositions(
    rows: pd.DataFrame, path: Path, description_column: str, composition_column: str
) -> pd.DataFrame:
    """Return the rows with each composition's text as description and the file's own beside it."""
    given = rows[composition_column]
    rows = rows.drop(columns=composition_column)
    rows = rows.rename(columns={name: f"file_{name}" for name in ADDED})
    written = rows.get(description_column, pd.Series("", index=rows.index, dtype="str"))
    found = {
        place: text_columns(from_json(text, f"{path}, {place}, column '{composition_column}'"))
        for place, text in given[given != ""].items()
    }
    texts = [found[place]["description"] if place in found else own for place, own in written.items()]
    columns = {
        "file_description": ["" if place not in found else own for place, own in written.items()],
        COMPOSITION: [found[place][COMPOSITION] if place in found else "" for place in rows.index],
    }
    return rows.assign(**{description_column: texts}, **columns)


def _composition_notes(rows: pd.DataFrame, path: Path, used: Sequence[str]) -> tuple[str, ...]:
    """Return a note on each unused column that holds compositions."""
    return tuple(
        f"{path.name}: column '{name}' holds compositions; set explainer.composition_column={name} to score "
        "them"
        for name in rows.columns
        if name not in used and rows[name].map(lambda cell: bool(COMPOSED.match(cell))).any()
    )


def _fixes(layer_column: str | None) -> Fixes:
    layered = "" if layer_column else " If the file mixes layers, set explainer.layer_column."
    return Fixes(
        unit="write the unit's index, or set explainer.unit_column to the column that holds it",
        layer="Write the layer there as the model names it.",
        duplicate=f"Remove one, or keep the first with explainer.on_duplicate=first.{layered}",
    )


def _missing(names: Sequence[str], needed: Sequence[str]) -> str:
    absent = [name for name in needed if name not in names]
    if not absent:
        return ""
    folded = {other.lower(): other for other in names}
    nearest = difflib.get_close_matches(absent[0].lower(), folded, n=3, cutoff=0.4)
    hint = f" Nearest: {', '.join(repr(folded[match]) for match in nearest)}." if nearest else ""
    return (
        f"no column '{absent[0]}' among {listed(names)}.{hint} Name the columns in the first line, or set "
        "explainer.unit_column, explainer.description_column, explainer.layer_column or "
        "explainer.composition_column."
    )


def _require_one_layer(rows: pd.DataFrame, path: Path) -> None:
    for name in rows.columns:
        layers = list(dict.fromkeys(rows[name])) if name.lower() == "layer" else []
        if len(layers) > 1:
            raise AssayError(
                f"{path} mixes layers ({listed(layers)}) in column '{name}'; "
                f"set explainer.layer_column={name}"
            )
