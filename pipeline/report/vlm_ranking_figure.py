"""Explainers by mean F with intervals, and F where the model gave one answer or another."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from pipeline.report.sae_drawing import GRID, MAX_CONTEXTS, RULE, SOFT, drawing, say_nothing_known
from pipeline.report.vlm_drawing import (
    BOUNDS,
    CAPTION,
    LOWER,
    RANDOM,
    UPPER,
    Drawn,
    Tables,
    cells_of,
    counted,
    draw_words,
    drawn_of,
    mark_apart,
    more_cells,
    number,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NARROW, WIDE, ROW_HEIGHT, PANEL_EXTRA = 9.2, 11.2, 0.29, 0.75
BETWEEN = "#F3EFE4"
ANSWER_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#6B6B6B")
ANSWER_MARKERS = ("o", "s", "D", "^", "v", "P", "X")
LEVEL = 0.05
"""Of the test against random, over which a mean is drawn hollow."""


@dataclass(frozen=True)
class _Panel:
    title: str
    explainers: pd.DataFrame
    strata: pd.DataFrame


def draw_ranking(tables: Tables, png: Path, svg: Path) -> None:
    """Draw mean F of each explainer, highest first; beside it F by the model's answer, with mean D.

    tables: `samples`, `explainers` and `strata`. A row of panels a cell, first the mean over cells where
    there are several; the first MAX_CONTEXTS cells are shown and others counted.
    """
    panels, n_cells = _panels(tables)
    if not panels:
        draw_words(png, svg, "no explainer was asked, so there is no ranking")
        return
    answers = any(len(panel.strata["answer"].unique()) > 1 for panel in panels)
    heights = [ROW_HEIGHT * len(panel.explainers) + PANEL_EXTRA for panel in panels]
    with drawing(png, svg, WIDE if answers else NARROW, sum(heights) + 1.0) as figure:
        grid = figure.subplots(
            len(panels),
            1 + answers,
            squeeze=False,
            sharex="col",
            height_ratios=heights,
            width_ratios=[1] * (1 + answers),
        )
        for panel, row in zip(panels, grid, strict=True):
            names = drawn_of(tables["explainers"], panel.explainers)
            _draw_means(row[0], panel, names)
            if answers:
                _draw_answers(row[1], panel, names)
        for axes in grid[-1]:
            axes.tick_params(axis="x", labelbottom=True)
        grid[-1][0].set_xlabel("F: mean over samples")
        if answers:
            grid[-1][1].set_xlabel("F by the model's answer")
        figure.supxlabel(_caption(tables["samples"], answers) + more_cells(n_cells), **CAPTION)


def _panels(tables: Tables) -> tuple[list[_Panel], int]:
    explainers, strata, cells = tables["explainers"], tables["strata"], cells_of(tables["samples"])
    by_cell = explainers[explainers["level"] == "cell"], strata[strata["level"] == "cell"]
    found = [_Panel(cell.title, *(cell.rows(table) for table in by_cell)) for cell in cells]
    found = [panel for panel in found if len(panel.explainers)]
    if len(cells) > 1 and (explainers["level"] == "overall").any():
        overall = [table[table["level"] == "overall"] for table in (explainers, strata)]
        return [_Panel(f"mean over {len(cells)} cells", *overall), *found[:MAX_CONTEXTS]], len(found)
    return found[:MAX_CONTEXTS], len(found)


def _draw_means(axes: "Axes", panel: _Panel, names: Sequence[Drawn]) -> None:
    rows = {str(row["explainer"]): row for _, row in panel.explainers.iterrows()}
    _dress(axes, names)
    axes.set_title(panel.title)
    _draw_references(axes, panel.explainers.set_index("explainer")["mean_f"])
    for place, drawn in enumerate(names):
        row = rows[drawn.name]
        n_samples, n_missing = int(row["n_samples"]), int(row["n_missing"])
        words = f"{n_missing} of {n_samples + n_missing} missing" if n_missing else ""
        if not isfinite(row["mean_f"]):
            axes.text(
                0.01,
                place,
                f"no F: {words}",
                transform=axes.get_yaxis_transform(),
                va="center",
                fontsize=8,
                color=SOFT,
            )
            continue
        told_apart = not row["p_random"] >= LEVEL
        colour = drawn.look.colour
        axes.plot(
            [row["low"], row["high"]], [place] * 2, color=colour, lw=2.0, solid_capstyle="butt", zorder=3
        )
        axes.plot(
            [row["mean_f"]], [place], marker=drawn.look.marker, ms=7, color=colour, mew=1.4,
            mfc=colour if told_apart and drawn.name != RANDOM else "white", zorder=4,
        )  # fmt: skip
        said = number(row["mean_f"], 3) + (f"  ({words})" if words else "")
        axes.text(
            1.015, place, said, transform=axes.get_yaxis_transform(), va="center", fontsize=8.5, color=SOFT
        )


def _draw_references(axes: "Axes", means: pd.Series) -> None:
    axes.axvline(0, color=RULE, linewidth=0.9, zorder=1)
    ends = [float(means.get(name, np.nan)) for name in (LOWER, UPPER)]
    if np.isfinite(ends).all():
        axes.axvspan(*ends, color=BETWEEN, zorder=0)
    if isfinite(level := float(means.get(RANDOM, np.nan))):
        axes.axvline(level, color="#858585", linewidth=1.1, linestyle=(0, (1, 2)), zorder=1)


def _draw_answers(axes: "Axes", panel: _Panel, names: Sequence[Drawn]) -> None:
    _dress(axes, names)
    axes.tick_params(axis="y", labelleft=False)
    strata = panel.strata
    if strata.empty:
        say_nothing_known(axes, "not computed for this panel")
        return
    sizes = strata.groupby("answer")["n_samples"].max()
    answers = sorted(sizes.index, key=lambda answer: (answer == "other", -sizes[answer], answer))
    axes.axvline(0, color=RULE, linewidth=0.9, zorder=1)
    for number_, answer in enumerate(answers):
        rows = strata[strata["answer"] == answer].set_index("explainer")
        _draw_answer(
            axes, rows, names, number_, len(answers), f"“{answer}”" if answer != "other" else "other"
        )
    axes.legend(
        loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=8.5,
        title="the model said", title_fontsize=8.5, alignment="left",
    )  # fmt: skip


def _draw_answer(
    axes: "Axes", rows: pd.DataFrame, names: Sequence[Drawn], place: int, n_answers: int, answer: str
) -> None:
    colour = ANSWER_COLOURS[place % len(ANSWER_COLOURS)]
    dividend = float(rows["mean_dividend"].mean())
    if isfinite(dividend):
        axes.axvline(dividend, color=colour, linewidth=1.3, linestyle=(0, (4, 2)), alpha=0.8, zorder=1)
    shift = 0.5 / max(n_answers, 2) * (place - (n_answers - 1) / 2)
    known = [(i + shift, rows.loc[drawn.name]) for i, drawn in enumerate(names) if drawn.name in rows.index]
    places = [at for at, _ in known]
    axes.hlines(
        places,
        [row["low"] for _, row in known],
        [row["high"] for _, row in known],
        color=colour,
        lw=1.6,
        zorder=3,
    )
    axes.plot(
        [row["mean_f"] for _, row in known], places, ls="none",
        marker=ANSWER_MARKERS[place % len(ANSWER_MARKERS)], ms=5, color=colour, mec="white", mew=0.6,
        zorder=4, label=f"{answer}\n{counted(int(rows['n_samples'].max()), 'sample')}, D {number(dividend)}",
    )  # fmt: skip


def _dress(axes: "Axes", names: Sequence[Drawn]) -> None:
    axes.set_ylim(len(names) - 0.45, -0.55)
    axes.set_yticks(range(len(names)), [_label(drawn.name) for drawn in names])
    axes.tick_params(length=0, labelsize=9)
    axes.tick_params(axis="y", labelsize=9.5)
    mark_apart(axes, [drawn.name for drawn in names])
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)


def _label(name: str) -> str:
    return f"{name} ({BOUNDS[name]})" if name in BOUNDS else name


def _caption(samples: pd.DataFrame, answers: bool) -> str:
    n_flagged = int((samples["flag"].fillna("") != "").sum())
    words = [
        "F: how much of what an explainer ranks first acts only in image and text together; "
        "line: interval over samples",
        "beige: between the two occlusions, which should stand near the ends; dotted: random; "
        "hollow: random, or not told apart from it",
    ]
    if answers:
        words.append(
            "D: what acts only together in the whole input, the same for all explainers (dashed: its mean); "
            "where it is near 0, so is F"
        )
    if n_flagged:
        words.append(f"{counted(n_flagged, 'sample')} of {len(samples):,} left out: no answer or not askable")
    return "\n".join(words)
