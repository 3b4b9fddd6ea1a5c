"""Tables of published files: columns by any of their spellings, without regard to case and spaces."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from pipeline.errors import AssayError
from pipeline.explainers.table_file import read_rows
from pipeline.explainers.text_file import read_text
from pipeline.explainers.unit_rows import listed

UNIT = ("unit", "neuron", "neuron id", "unit id")
LAYER = ("layer",)
LAYOUTS: tuple[tuple[str, tuple[tuple[str, ...], ...]], ...] = (
    ("le_label_published", (("weight0",), ("concept0",))),
    ("dnd", (("label 1",),)),
    ("network_dissection_published", (("label",), ("category",))),
    ("clip_dissect_published", (("description",), ("similarity",))),
    ("milan", (("description", "summary", "annotation"),)),
)
"""Explainers by the columns, besides the unit's, that tell their files; the first that fits is meant."""
APART = re.compile(r"[\s_-]+")


def read_table(
    path: Path, format: str, *needed: Sequence[str], instead: Mapping[str, Sequence[str]] | None = None
) -> pd.DataFrame:
    """Return a CSV or TSV file's rows; each of `needed` is the spellings of a column that must be there.

    `instead`: settings of the same format, by the spellings of the text's column that each reads.
    """
    return read_rows(path, lambda names: _missing(names, needed, format, instead or {}))


def column(names: Sequence[str], spellings: Sequence[str]) -> str | None:
    """Return the column that has one of the spellings, the first spelling first, then the first column."""
    folded: dict[str, str] = {}
    for name in names:
        folded.setdefault(_folded(name), name)
    return next((folded[_folded(word)] for word in spellings if _folded(word) in folded), None)


def required(rows: pd.DataFrame, spellings: Sequence[str]) -> str:
    """Return the column that `read_table` made sure of."""
    name = column(list(rows.columns), spellings)
    assert name is not None
    return name


def read_units_json(path: Path, format: str, needed: Sequence[str]) -> pd.DataFrame:
    """Return the list `units` of a JSON report as rows of text, indexed by place ("units[3]").

    Lists and objects in a unit's entry are left out. Raises AssayError for what is no such report.
    """
    try:
        report = json.loads(read_text(path, "explainer.path"))
    except (ValueError, RecursionError) as error:
        raise AssayError(f"{path} is no JSON ({error}); set explainer.path to a result of {format}") from None
    entries = report.get("units") if isinstance(report, dict) else None
    if not isinstance(entries, list) or not entries:
        raise AssayError(f"{path} has no list 'units'; set explainer.path to a result of {format}")
    cells = {f"units[{place}]": _entry(entry, path, place, needed) for place, entry in enumerate(entries)}
    return pd.DataFrame.from_dict(cells, orient="index").fillna("").astype("str")


def _entry(entry: Any, path: Path, place: int, needed: Sequence[str]) -> dict[str, str]:
    if not isinstance(entry, dict) or not set(needed) <= set(entry):
        names = " and ".join(f"'{name}'" for name in needed)
        raise AssayError(
            f"{path}, units[{place}] needs {names}; set explainer.path to the method's own report"
        )
    plain = {name: value for name, value in entry.items() if not isinstance(value, list | dict)}
    return {name: "" if value is None else str(value).strip() for name, value in plain.items()}


def _folded(name: str) -> str:
    return APART.sub("", name).lower()


def _missing(
    names: Sequence[str], needed: Sequence[Sequence[str]], format: str, instead: Mapping[str, Sequence[str]]
) -> str:
    absent = [spellings for spellings in needed if column(names, spellings) is None]
    if not absent:
        return ""
    return (
        f"no column '{absent[0][0]}' among {listed(names)}, which a result of {format} has. "
        f"{_fix(names, instead)}"
    )


def _fix(names: Sequence[str], instead: Mapping[str, Sequence[str]]) -> str:
    """Return the setting or the explainer that reads such columns."""
    named = "explainer=csv with explainer.unit_column and explainer.description_column"
    if column(names, UNIT) is None:
        return f"Take {named}, which reads any columns."
    for setting, spellings in instead.items():
        if column(names, spellings) is not None:
            return f"Set {setting}, which reads this file."
    for explainer, told in LAYOUTS:
        if all(column(names, spellings) is not None for spellings in told):
            return f"Take explainer={explainer}, which reads such columns, or {named}."
    return f"Take {named}, which reads any columns."
