"""How many latents stand for an attribute."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipeline.report.sae_drawing import (
    IDENTITY,
    LEAST_WIDTH,
    LOOKS,
    OTHER,
    RULE,
    SOFT,
    drawing,
    dress,
    factors_of,
    variants_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_COLUMNS = 3
PANEL_HEIGHT, EXTRA_HEIGHT = 1.9, 0.7


def draw_coalition_sizes(tables: Mapping[str, pd.DataFrame], png: Path, svg: Path) -> None:
    """Draw for each variant the share of attributes by the number of latents of their coalition; 0 is empty.

    tables: those of the sae_comparison stage, `attributes` of which is read. All SAEs of a variant together.
    """
    attributes = tables["attributes"]
    variants = variants_of(attributes)
    largest = int(attributes["n_latents"].max()) if attributes["n_latents"].notna().any() else 0
    n_columns = min(MAX_COLUMNS, len(variants))
    n_rows = -(-len(variants) // n_columns)
    with drawing(
        png, svg, max(3.0 * n_columns, LEAST_WIDTH) + 0.6, PANEL_HEIGHT * n_rows + EXTRA_HEIGHT
    ) as figure:
        panels = figure.subplots(n_rows, n_columns, squeeze=False, sharex=True, sharey=True)
        for variant, axes in zip(variants, panels.ravel(), strict=False):
            rows = attributes[attributes["variant"] == variant]
            _draw_panel(axes, variant, rows, largest)
        for axes in panels.ravel()[len(variants) :]:
            axes.set_visible(False)
        for number in range(len(variants)):  # the last panel of each column may stand above a hole
            panels.ravel()[number].tick_params(labelbottom=number + n_columns >= len(variants))
        figure.supxlabel(
            "latents of an attribute's coalition (0, hatched: no latent matches it)",
            fontsize=9.5,
            color="#404040",
        )
        figure.supylabel("share of attributes", fontsize=9.5, color="#404040")


def size_shares(n_latents: pd.Series, largest: int) -> NDArray[np.float64]:
    """Return the shares (largest + 1,) of attributes whose coalition has 0, 1, ... latents."""
    counts = np.bincount(n_latents.to_numpy(dtype=np.int64), minlength=largest + 1)
    shares: NDArray[np.float64] = counts / max(len(n_latents), 1)
    return shares


def _draw_panel(axes: "Axes", variant: str, rows: pd.DataFrame, largest: int) -> None:
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    look = LOOKS.get(variant, OTHER)
    shares = size_shares(rows["n_latents"].dropna(), largest)
    dress(axes)
    axes.grid(visible=False, axis="x")
    axes.bar(np.arange(1, largest + 1), shares[1:], width=0.82, color=look.colour)
    axes.bar([0], shares[:1], width=0.82, color="white", edgecolor=look.colour, hatch="////", linewidth=1.0)
    n_saes = len(rows.drop_duplicates([*factors_of(rows), *IDENTITY]))
    axes.set_title(variant)
    axes.text(
        0.98,
        0.95,
        f"{n_saes} {'SAE' if n_saes == 1 else 'SAEs'}\nempty {100 * shares[0]:.0f}%\n{_median(rows)}",
        transform=axes.transAxes,
        ha="right",
        va="top",
        fontsize=8,
        color=SOFT,
    )
    axes.set_xlim(-0.7, max(largest, 3) + 0.7)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.spines["bottom"].set_color(RULE)


def _median(rows: pd.DataFrame) -> str:
    matched = rows.loc[rows["n_latents"] > 0, "n_latents"]
    return "none matched" if matched.empty else f"median of the others {matched.median():g}"
