"""MATCHScore against TAPAScore: do SAEs that match more also move when the attribute does?"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from pipeline.report.sae_drawing import (
    MAX_CONTEXTS,
    RULE,
    SOFT,
    Context,
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
    width_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

SMALLEST, LARGEST = 22.0, 150.0
"""Areas of markers (points squared) of the smallest and the largest dictionary."""


def draw_match_tapa(tables: Mapping[str, pd.DataFrame], png: Path, svg: Path) -> None:
    """Draw a point an SAE: MATCHScore against TAPAScore; the larger the dictionary, the larger the marker.

    tables: those of the sae_comparison stage, `saes` of which is read. Frozen and random SAEs are hollow.
    """
    saes = tables["saes"]
    contexts, series = contexts_of(saes), series_of(saes)
    shown = contexts[:MAX_CONTEXTS]
    areas = marker_areas(saes["dictionary_size"])
    with drawing(png, svg, width_of(len(shown)), 4.2) as figure:
        panels = figure.subplots(1, len(shown), squeeze=False, sharex=True, sharey=True)[0]
        panels[0].set_ylabel("TAPAScore")
        for context, axes in zip(shown, panels, strict=True):
            axes.set_title(context.title)
            _draw_panel(axes, context, saes, series, areas)
        if saes.dropna(subset=["match_score", "tapa_score"]).empty:
            panels[0].tick_params(left=False, labelleft=False, bottom=False, labelbottom=False)
        caption = "MATCHScore (mean F1 of attributes on held-out images); a point is an SAE"
        figure.supxlabel(caption + left_out(len(contexts)), fontsize=9.5, color="#404040")
        add_legend(figure, [*map(_without_line, series), *_size_handles(areas)])


def marker_areas(sizes: pd.Series) -> dict[float, float]:
    """Return a marker's area for each dictionary size, even steps from the smallest to the largest."""
    found = sorted(float(size) for size in sizes.dropna().unique())
    areas = np.linspace(SMALLEST, LARGEST, len(found)) if len(found) > 1 else [60.0]
    return dict(zip(found, map(float, areas), strict=True))


def _draw_panel(
    axes: "Axes",
    context: Context,
    saes: pd.DataFrame,
    series: Sequence[Series],
    areas: Mapping[float, float],
) -> None:
    dress(axes)
    rows = context.rows(saes)
    known = rows.dropna(subset=["match_score", "tapa_score"])
    if known.empty:
        say_nothing_known(axes, "TAPAScore is not computed:\nno pairs of images")
        return
    axes.axhline(0, color=RULE, linewidth=1.0, zorder=1)
    for each in series:
        own = each.rows(known).sort_values("dictionary_size", ascending=False, kind="stable")
        look = each.look
        axes.scatter(
            own["match_score"],
            own["tapa_score"],
            s=[areas[float(size)] for size in own["dictionary_size"]],
            marker=look.marker,
            facecolors="none" if look.hollow else look.colour,
            edgecolors=look.colour if look.hollow else "white",
            linewidths=1.2 if look.hollow else 0.7,
            alpha=0.85,
            zorder=2,
        )
    say_missing(axes, count_missing(rows, series, "tapa_score"))


def _without_line(series: Series) -> "Line2D":
    found = handle(series)
    found.set_linestyle("none")
    return found


def _size_handles(areas: Mapping[float, float]) -> "list[Line2D]":
    from matplotlib.lines import Line2D

    if len(areas) < 2:
        return []
    ends = list(dict.fromkeys((min(areas), max(areas))))
    return [
        Line2D(
            [],
            [],
            ls="none",
            marker="o",
            color=SOFT,
            mfc="none",
            ms=areas[size] ** 0.5,
            label=f"{size:,.0f} latents",
        )
        for size in ends
    ]
