"""Explanations from the result files of published methods."""

import inspect
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from pipeline.errors import AssayError
from pipeline.explainers.explanations import Explanations
from pipeline.explainers.formats.registry import result_format
from pipeline.explainers.unit_rows import Fixes, UnitRows, match_units

FIXES = Fixes(
    unit="check that explainer.format is the file's own",
    layer="Set explainer.layer_name to the one that is meant.",
    duplicate="Remove one, or keep the first with explainer.on_duplicate=first.",
)


def explain(
    units: Sequence[int],
    n_units: int,
    *,
    layer: str,
    path: Path,
    format: str,
    method: str,
    layer_name: str | None = None,
    first_unit: Literal[0, 1] | None = None,
    on_duplicate: Literal["stop", "first"] = "first",
    max_concepts: int | None = None,
    label: Literal[1, 2, 3] | None = None,
    text: Literal["label", "description"] | None = None,
    min_iou: float | None = None,
    plain_labels: bool | None = None,
) -> Explanations:
    """Read a published result for `units` of a layer of `n_units`.

    `format` names a module of pipeline/explainers/formats, whose docstring says where its layout was seen and
    what it needs. `layer_name` is the file's name for the layer, null: the model's. `first_unit` null counts
    as the format does. The other settings are options of one format, null: its default. How units are matched
    is in `unit_rows.match_units`.

    Raises AssayError for what cannot be read, for an option of another format, and for a `layer_name` where
    the file does not name layers.
    """
    options = {
        "max_concepts": max_concepts,
        "label": label,
        "text": text,
        "min_iou": min_iou,
        "plain_labels": plain_labels,
    }
    table = _read(path, format, {name: value for name, value in options.items() if value is not None})
    if layer_name is not None and table.layer_column is None:
        raise AssayError(f"{path} does not name layers; set explainer.layer_name=null")
    if first_unit is not None:
        table = replace(table, first_unit=first_unit, usual_first_unit=table.first_unit)
    return match_units(
        table,
        units,
        n_units,
        layer=layer_name if layer_name is not None else layer,
        method=method,
        on_duplicate=on_duplicate,
        fixes=FIXES,
    )


def _read(path: Path, format: str, options: dict[str, Any]) -> UnitRows:
    read = result_format(format).read
    known = list(inspect.signature(read).parameters)[1:]
    for name, value in options.items():
        if name not in known:
            has = f"its options are {', '.join(known)}" if known else "it has no options"
            raise AssayError(f"explainer.{name}={value} is no option of explainer.format={format}; {has}")
    table: UnitRows = read(path, **options)
    return table
