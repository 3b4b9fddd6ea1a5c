"""Scores against the dictionary size."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from pipeline.report.sae_drawing import SOFT, Series
from pipeline.report.sae_score_rows import DMATCH, DSTAY, TAPA, Curves, draw_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.patches import Patch

CAPTION = "dictionary size (latents); faint point: an SAE, line: mean over seeds"
OPACITY, HALF_WIDTH = 0.18, 0.28
"""Of the band of frozen seeds; its half width is in doublings of the size."""


def draw_sizes(tables: Mapping[str, pd.DataFrame], png: Path, svg: Path) -> None:
    """Draw dMATCHScore over TAPAScore against the dictionary size; points: SAEs, lines: means of seeds.

    tables: those of the sae_comparison stage, `saes` of which is read. dMATCHScore: MATCHScore minus that of
    frozen SAEs, which are the line at 0; the band is 1 sd of their seeds to each side.
    """
    saes = tables["saes"]
    scale = partial(_scale, sizes=saes["dictionary_size"])
    curves = Curves(_draw_series, scale, behind=_draw_band, handles=_band_handle(saes))
    draw_rows(saes, (DMATCH, TAPA), curves, CAPTION, png, svg)


def draw_dstay(tables: Mapping[str, pd.DataFrame], png: Path, svg: Path) -> None:
    """Draw dstay against the dictionary size: how much latents of untouched attributes move."""
    saes = tables["saes"]
    curves = Curves(_draw_series, partial(_scale, sizes=saes["dictionary_size"]))
    draw_rows(saes, (DSTAY,), curves, CAPTION, png, svg)


def _draw_series(axes: "Axes", series: Series, rows: pd.DataFrame, column: str, shift: float) -> None:
    look = series.look
    by_size = rows.sort_values("dictionary_size", kind="stable").groupby("dictionary_size")[column]
    means = by_size.mean()
    seeds = rows[by_size.transform("size") > 1]
    edge = look.colour if look.hollow else "none"
    axes.scatter(
        seeds["dictionary_size"] * 2.0**shift,
        seeds[column],
        s=16,
        marker=look.marker,
        facecolors="none" if look.hollow else look.colour,
        edgecolors=edge,
        linewidths=0.8,
        alpha=0.45,
        zorder=2,
    )
    axes.plot(
        means.index.to_numpy(dtype=np.float64) * 2.0**shift,
        means.to_numpy(dtype=np.float64),
        color=look.colour,
        marker=look.marker,
        ls=series.dashes,
        lw=1.8,
        ms=6,
        mfc="white" if look.hollow else look.colour,
        mec=look.colour if look.hollow else "white",
        mew=1.1 if look.hollow else 0.8,
        zorder=3,
    )


def _draw_band(axes: "Axes", rows: pd.DataFrame) -> None:
    """Draw 1 sd of the frozen seeds' scores around 0, at every size at which it is known."""
    spread = rows.dropna(subset=["frozen_spread"]).groupby("dictionary_size")["frozen_spread"].max()
    for size, sd in zip(spread.index.to_numpy(dtype=np.float64), spread, strict=True):
        ends = [size / 2.0**HALF_WIDTH, size * 2.0**HALF_WIDTH]
        axes.fill_between(ends, -sd, sd, color=SOFT, alpha=OPACITY, linewidth=0, zorder=0)


def _band_handle(saes: pd.DataFrame) -> "list[Patch]":
    from matplotlib.patches import Patch

    if saes["frozen_spread"].isna().all():
        return []
    return [Patch(color=SOFT, alpha=OPACITY, linewidth=0, label="1 sd of frozen seeds")]


def _scale(axes: "Axes", sizes: pd.Series) -> None:
    """Scale by doublings, with a tick at every size that some SAE has."""
    from matplotlib.ticker import FixedLocator, NullLocator, StrMethodFormatter

    found = sorted(sizes.dropna().unique())
    axes.set_xscale("log", base=2)
    axes.set_xlim(found[0] / 2**0.5, found[-1] * 2**0.5)
    axes.xaxis.set_major_locator(FixedLocator(found))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    if len(found) > 6:
        axes.tick_params(axis="x", rotation=45)
