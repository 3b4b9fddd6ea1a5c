"""Tables of results for a page: numbers short to read and whole to save, with the keys they came from."""

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from pipeline.formulas import neutral_table
from pipeline.report.report_inputs import Point, ReportInputs
from pipeline.report.sections.section import Cell, Column, DataTable
from pipeline.report.sections.wording import MISSING, measured, p_cell, share, with_spread

MAX_ROWS = 100
"""Of a table on the page."""
MAX_CSV = 1_000_000
"""Bytes of a table that is saved from the page; a larger one is beside the page."""
POOLED = ("all", "")
"""What a row of several cells has for a factor."""
Keys = Sequence[tuple[str, ...]]
Row = Mapping[Any, Any]


@dataclass(frozen=True)
class Shown:
    """A column to show: its title, and the columns with the ends of its interval."""

    title: str
    ends: tuple[str, str] | None = None


Columns = Mapping[str, str | Shown]
"""The columns to show, with their titles."""


def data_table(
    name: str,
    title: str,
    frame: pd.DataFrame,
    source: str,
    *,
    shown: Columns | None = None,
    keys: Keys | None = None,
    words: Sequence[str] = (),
    folded: bool = False,
) -> DataTable:
    """Return a table with the columns `shown` that say something (default: all), and a column of keys.

    keys: of the results that each row is from. The CSV has every row and column in full precision, and the
    keys, or the source's where none are given.
    """
    chosen = {name: _shown(how) for name, how in (shown or _all(frame)).items() if name in frame}
    if shown is not None:
        chosen = {name: how for name, how in chosen.items() if _is_told(frame[name])}
    rows = frame.head(MAX_ROWS)
    cells = [[_cell(row, column, how) for column, how in chosen.items()] for row in rows.to_dict("records")]
    columns = [Column(how.title, _is_numeric(frame[column])) for column, how in chosen.items()]
    if keys is not None:
        columns.append(Column("from", False))
        cells = [[*line, Cell(" ".join(own), "", tuple(own))] for line, own in zip(cells, keys, strict=False)]
    saved = frame.assign(key=[" ".join(own) for own in keys] if keys is not None else source)
    return DataTable(
        name=name,
        title=title,
        columns=tuple(columns),
        rows=tuple(map(tuple, cells)),
        n_rows=len(frame),
        csv=csv_uri(saved),
        source=source,
        words=tuple(words),
        folded=folded,
    )


def varying(rows: pd.DataFrame, factors: Sequence[str]) -> dict[str, str]:
    """Return the factors as columns to show: those that are not the same in all rows."""
    return {name: name for name in factors if name in rows and len(set(rows[name])) > 1}


def csv_uri(frame: pd.DataFrame) -> str:
    """Return a table as a data URI (CSV, numbers in full precision), "" above MAX_CSV bytes."""
    content = neutral_table(frame).to_csv(index=False).encode("utf-8")
    if len(content) > MAX_CSV:
        return ""
    return "data:text/csv;charset=utf-8;base64," + base64.b64encode(content).decode("ascii")


def keys_of_rows(
    frame: pd.DataFrame, points: Sequence[Point], stage: str, method: str
) -> list[tuple[str, ...]]:
    """Return for each row the keys of a stage of the points that it is from.

    A point fits where every factor that both know is equal, or the row pools it, and where the row's column
    `method` has one of the point's names. No point fits: no key.
    """
    return [
        tuple(dict.fromkeys(p.keys[stage] for p in points if stage in p.keys and _fits(p, row, method)))
        for row in frame.to_dict("records")
    ]


def all_tables(inputs: ReportInputs) -> list[DataTable]:
    """Return every table of the comparison, folded, with all its columns."""
    return [
        data_table(name, name, table, inputs.key, folded=True)
        for name, table in inputs.tables.items()
        if name != "maps"
    ]


def _fits(point: Point, row: Row, method: str) -> bool:
    if method in row and str(row[method]) not in (*point.methods, *POOLED):
        return False
    return all(
        str(row[name]) in (value, *POOLED)
        for name, value in point.factors.items()
        if row.get(name) is not None
    )


def _all(frame: pd.DataFrame) -> dict[str, str]:
    return {str(name): str(name).replace("_", " ") for name in frame.columns}


def _shown(how: str | Shown) -> Shown:
    return how if isinstance(how, Shown) else Shown(how)


def _is_told(column: pd.Series) -> bool:
    """Say whether a column has a value anywhere; "" is none."""
    return bool((column.notna() & (column.astype(str) != "")).any()) or column.empty


def _is_numeric(column: pd.Series) -> bool:
    return bool(pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column))


def _cell(row: Row, column: str, how: Shown) -> Cell:
    value = row[column]
    if isinstance(value, (list, tuple, np.ndarray)):
        return Cell(" ".join(map(str, value)))
    if isinstance(value, (bool, np.bool_)):
        return Cell("yes" if value else "no")
    if value is None or value is pd.NA or (isinstance(value, float) and np.isnan(value)):
        return Cell(MISSING)
    if isinstance(value, (int, np.integer)):
        return Cell(_whole(int(value), column), str(int(value)))
    if isinstance(value, (float, np.floating)):
        return Cell(_number(row, float(value), column, how), repr(float(value)))
    text = str(value).replace(";", "; ") if column == "flags" else str(value)
    return Cell(text, "", (text,)) if column.endswith("_key") and text else Cell(text)


def _whole(value: int, column: str) -> str:
    plain = column in ("unit", "seed", "latent") or column.endswith(".seed")
    return str(value) if plain else f"{value:,}".replace("-", "\N{MINUS SIGN}")


def _number(row: Row, value: float, column: str, how: Shown) -> str:
    if how.ends is not None:
        low, high = (float(row.get(end, np.nan)) for end in how.ends)
        return with_spread(value, low, high)
    return FORMATS.get(column, measured)(value)


def _part(value: float) -> str:
    return f"{100 * value:.0f}%"


def _count(value: float) -> str:
    return f"{value:,.0f}"


FORMATS: dict[str, Callable[[float], str]] = {
    **dict.fromkeys(("p", "p_holm", "p_random", "p_t", "p_t_holm", "p_wilcoxon", "p_wilcoxon_holm"), p_cell),
    "p_first": share,
    "n_everything": _count,
    "saved": lambda value: f"{100 * value:.1f}%",
    "dollars": lambda value: f"${value:,.2f}",
    **dict.fromkeys(("tie_share", "dead_share", "rce", "rce_median", "rce_large"), _part),
    **dict.fromkeys(
        (
            "n_everything",
            "n_states",
            "together",
            "alone",
            "ties",
            "insertion",
            "published",
            "sii_all",
            "sae_k",
        ),
        _count,
    ),
}
"""How a column's numbers are shown, where not as measured ones."""
