"""How SAEs trained: a panel a measure and dictionary size, a line an SAE, against the epoch."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from pipeline.report.sae_drawing import (
    add_legend,
    drawing,
    dress,
    handle,
    say_nothing_known,
    series_of,
    trained,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MEASURES = {
    "validation_loss": "validation loss",
    "explained_variance": "explained variance",
    "l0": "L0: latents that fire",
    "dead_share": "share of dead latents",
}
PANEL_WIDTH, PANEL_HEIGHT, LEGEND_WIDTH, MAX_SIZES = 2.6, 1.9, 1.7, 6
CAPTION = "epoch; a line is an SAE, its dot the epoch whose weights are kept"


def draw_sae_training(tables: Mapping[str, pd.DataFrame], png: Path, svg: Path) -> None:
    """Draw validation loss, explained variance, L0 and dead share of every trained SAE.

    tables: `curves` of the sae_comparison stage: a row an SAE and epoch, with `best`. All on validation
    images. At most MAX_SIZES dictionary sizes are drawn; the caption says how many are not.
    """
    curves = trained(tables["curves"])
    every = sorted(curves["dictionary_size"].unique()) or [0]
    sizes = every[:MAX_SIZES]
    width = PANEL_WIDTH * len(sizes) + LEGEND_WIDTH + 0.6
    series = series_of(curves) if len(curves) else []
    with drawing(png, svg, width, PANEL_HEIGHT * len(MEASURES) + 0.5) as figure:
        axes = figure.subplots(len(MEASURES), len(sizes), squeeze=False, sharex="col", sharey="row")
        for column, size in enumerate(sizes):
            rows = curves[curves["dictionary_size"] == size]
            for row, measure in enumerate(MEASURES):
                _draw_panel(axes[row, column], rows, measure, curves)
            axes[0, column].set_title(f"{size:,} latents" if size else "")
        for row, title in enumerate(MEASURES.values()):
            axes[row, 0].set_ylabel(title)
        more = len(every) - len(sizes)
        figure.supxlabel(CAPTION + (f"; {more} larger sizes are in the table" if more else ""), fontsize=8.5)
        add_legend(figure, [handle(each) for each in series])


def _draw_panel(axes: "Axes", rows: pd.DataFrame, measure: str, curves: pd.DataFrame) -> None:
    from matplotlib.ticker import MaxNLocator

    dress(axes)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=5))
    if rows.empty or rows[measure].isna().all():
        say_nothing_known(axes, "no SAE was trained" if rows.empty else "not recorded")
        return
    for series in series_of(curves):
        look = series.look
        for _, line in series.rows(rows).groupby("sae_key", sort=False):
            axes.plot(line["epoch"], line[measure], color=look.colour, ls=series.dashes, lw=1.2, alpha=0.8)
            best = line[line["best"]]
            axes.plot(best["epoch"], best[measure], color=look.colour, marker=look.marker, ms=4, ls="")
