"""Synergy along the path: what image and text do together as the top players come or go."""

from collections.abc import Sequence
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from pipeline.report.sae_drawing import (
    MAX_CONTEXTS,
    RULE,
    Context,
    drawing,
    dress,
    say_missing,
    say_nothing_known,
)
from pipeline.report.vlm_drawing import (
    CAPTION,
    Drawn,
    Tables,
    cells_of,
    counted,
    draw_words,
    drawn_of,
    handle,
    more_cells,
    note,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROW_HEIGHT = 3.6
CURVES = {"ins": "insertion", "del": "deletion"}
Z95 = 1.96
CAPTION_WORDS = """share of patches and of tokens, most important first,
put into an empty input (insertion) or taken out of the whole (deletion)
a sample's curves all run from 0 to its D; they rise early where an explainer finds what acts together
line: mean over samples; band: 95%, less the differences between samples that all explainers share"""


def draw_synergy_curves(tables: Tables, png: Path, svg: Path) -> None:
    """Draw the mean insertion and deletion curves of each explainer, with bands as `errors_within` gives.

    tables: `samples`, `explainers` and `curves`. A row of two panels a cell.
    """
    curves = tables["curves"]
    cells = [cell for cell in cells_of(tables["samples"]) if len(cell.rows(curves))]
    if not cells:
        draw_words(png, svg, "no explainer has a curve")
        return
    shown, drawn = cells[:MAX_CONTEXTS], drawn_of(tables["explainers"])
    with drawing(png, svg, 11.0, ROW_HEIGHT * len(shown) + 0.9) as figure:
        grid = figure.subplots(len(shown), 2, squeeze=False, sharex=True, sharey="row")
        for cell, row in zip(shown, grid, strict=True):
            rows = cell.rows(curves)
            for (column, title), axes in zip(CURVES.items(), row, strict=True):
                axes.set_title(f"{cell.title}: {title}" if column == "ins" else title)
                _draw_panel(axes, rows, column, drawn)
            _say_counts(row[0], cell, tables, drawn)
            row[0].set_ylabel("synergy")
        caption = CAPTION_WORDS + more_cells(len(cells))
        figure.supxlabel(caption, **CAPTION)
        figure.legend(
            handles=[handle(each, line=True) for each in drawn], loc="outside right upper", frameon=False,
            fontsize=9, title="by mean F", title_fontsize=9, alignment="left",
        )  # fmt: skip


def _draw_panel(axes: "Axes", rows: pd.DataFrame, column: str, drawn: Sequence[Drawn]) -> None:
    dress(axes)
    axes.axhline(0, color=RULE, linewidth=1.0, zorder=1)
    axes.set_xlim(-0.02, 1.02)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0%", "25%", "50%", "75%", "100%"])
    if rows[column].isna().all():
        say_nothing_known(axes, "not computed")
        return
    means = rows.groupby(["explainer", "share"])[column].mean().dropna()
    errors = errors_within(rows, column)
    for each in drawn:
        if each.name not in means.index:
            continue
        mean, error = means[each.name], Z95 * errors[each.name].reindex(means[each.name].index)
        look, share = each.look, mean.index.to_numpy(dtype=np.float64)
        axes.fill_between(
            share, mean - error, mean + error, color=look.colour, alpha=0.08, linewidth=0, zorder=2
        )
        axes.plot(
            share,
            mean,
            color=look.colour,
            ls=each.dashes,
            lw=1.7,
            marker=look.marker,
            ms=4.5,
            mfc=each.face,
            zorder=3,
        )


def errors_within(curves: pd.DataFrame, column: str) -> pd.Series:
    """Return the standard error of each mean over samples, by (explainer, share), within samples.

    From each value the mean of the sample's explainers is taken off first, as samples differ in D, which
    all explainers share. With E explainers, errors are sqrt(E / (E - 1)) larger; with one, nothing is taken
    off. 0 where there is one sample. Source: Cousineau 2005, Morey 2008.
    """
    known = curves.dropna(subset=[column])
    n_explainers = known["explainer"].nunique()
    if n_explainers > 1:
        shared = known.groupby(["sample_id", "share"])[column].transform("mean")
        known = known.assign(**{column: (known[column] - shared) * sqrt(n_explainers / (n_explainers - 1))})
    groups = known.groupby(["explainer", "share"])[column]
    return groups.std().fillna(0) / np.sqrt(groups.count())


def _say_counts(axes: "Axes", cell: Context, tables: Tables, drawn: Sequence[Drawn]) -> None:
    scores = cell.rows(tables["curves"])
    scores = scores[scores["point"] == 0]
    n_samples = int(scores["sample_id"].nunique())
    known = scores.dropna(subset=["ins", "del"]).groupby("explainer").size()
    lacking = [(each.name, n_samples - int(known.get(each.name, 0))) for each in drawn]
    say_missing(axes, [f"{name} ({n} of {n_samples} samples)" for name, n in lacking if n])
    note(axes, counted(n_samples, "sample"), x=0.02, y=0.94)
