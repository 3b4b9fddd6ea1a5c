"""Curves of scores: a row of panels a score, a column a context, a line a variant."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from pipeline.report.sae_drawing import (
    MAX_CONTEXTS,
    RULE,
    Series,
    add_legend,
    contexts_of,
    count_missing,
    drawing,
    dress,
    handle,
    left_out,
    say_missing,
    say_nothing_known,
    series_of,
    trained,
    width_of,
)

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

ROW_HEIGHT, EXTRA_HEIGHT = 2.5, 1.1
SPREAD = 0.36
"""How far apart the first and the last of many series stand that share a place, of a step between places."""


@dataclass(frozen=True)
class Score:
    """A column that is drawn: its axis, and why it may be absent.

    over_frozen: a difference to frozen SAEs, so that untrained SAEs have none.
    """

    column: str
    label: str
    absent: str
    over_frozen: bool = False


MATCH = Score("match_score", "MATCHScore", "not computed")
DMATCH = Score("dmatch_score", "dMATCHScore", "unknown: no frozen SAE\nof the same dictionary size", True)
TAPA = Score("tapa_score", "TAPAScore", "not computed: no pairs of images")
DSTAY = Score(
    "dstay",
    "dstay (0: nothing else moves)",
    "not computed: no pairs in which\nan untouched attribute is present",
)


def _draw_nothing(axes: "Axes", rows: pd.DataFrame) -> None:
    """Draw nothing behind the curves."""


def _all_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """Take every row as one SAE."""
    return rows


@dataclass(frozen=True)
class Curves:
    """How one series' rows of a score become a curve, and what stands around it.

    series(axes, series, rows, column, shift): rows have the column; shift (-0.18 to 0.18) keeps series apart.
    scale(axes): the horizontal axis. behind(axes, rows): what lies under the curves of a difference to
    frozen SAEs. an_sae(rows): one row an SAE.
    """

    series: Callable[["Axes", Series, pd.DataFrame, str, float], None]
    scale: Callable[["Axes"], None]
    behind: Callable[["Axes", pd.DataFrame], None] = _draw_nothing
    an_sae: Callable[[pd.DataFrame], pd.DataFrame] = _all_rows
    handles: "Sequence[Artist]" = field(default=())


def draw_rows(
    table: pd.DataFrame, scores: Sequence[Score], curves: Curves, caption: str, png: Path, svg: Path
) -> None:
    """Draw scores of a table of SAEs; the first MAX_CONTEXTS contexts have a column, others are counted."""
    contexts, series = contexts_of(table), series_of(table)
    shown = contexts[:MAX_CONTEXTS]
    with drawing(png, svg, width_of(len(shown)), ROW_HEIGHT * len(scores) + EXTRA_HEIGHT) as figure:
        panels = figure.subplots(len(scores), len(shown), squeeze=False, sharex=True, sharey="row")
        for score, row in zip(scores, panels, strict=True):
            row[0].set_ylabel(score.label)
            places = list(zip(row, shown, strict=True))
            drawn = [
                _draw_panel(axes, score, context.rows(table), series, curves) for axes, context in places
            ]
            if not any(drawn):
                _hide_scale(row)
        for context, axes in zip(shown, panels[0], strict=True):
            axes.set_title(context.title)
        figure.supxlabel(caption + left_out(len(contexts)), fontsize=9.5, color="#404040")
        add_legend(figure, [*map(handle, series), *curves.handles])


def _draw_panel(
    axes: "Axes", score: Score, rows: pd.DataFrame, series: Sequence[Series], curves: Curves
) -> bool:
    """Draw one panel; say whether there is anything on it."""
    dress(axes)
    curves.scale(axes)
    if score.over_frozen:
        rows = trained(rows)
    if rows[score.column].isna().all():
        say_nothing_known(axes, score.absent)
        return False
    axes.axhline(0, color=RULE, linewidth=1.0, zorder=1)
    if score.over_frozen:
        curves.behind(axes, rows)
    for number, each in enumerate(series):
        known = each.rows(rows).dropna(subset=[score.column])
        if len(known):
            curves.series(axes, each, known, score.column, _shift(number, len(series)))
    say_missing(axes, count_missing(curves.an_sae(rows), series, score.column))
    return True


def _shift(number: int, n_series: int) -> float:
    return SPREAD / max(n_series, 4) * (number - (n_series - 1) / 2)


def _hide_scale(row: "Sequence[Axes]") -> None:
    for axes in row:
        axes.tick_params(axis="y", left=False, labelleft=False)
