"""How the metrics rank the explainers: a column a metric, which agree where the evaluation holds."""

from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipeline.report.sae_drawing import INK, MAX_CONTEXTS, RULE, SOFT, Context, drawing
from pipeline.report.vlm_drawing import CAPTION, Tables, cells_of, draw_words, mark_apart, more_cells, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

F = "f"
METRICS = {
    F: "F",
    "sii": "SII\nsum",
    "sii_top": "SII\ntop pair",
    "image_auc_del": "image\ndeletion",
    "text_auc_del": "text\ndeletion",
    "image_srg": "image\nSRG",
    "text_srg": "text\nSRG",
    "pointing": "pointing\ngame",
    "iou": "IoU",
}
SHADES, GREYS = ("#0B3C6F", "#EAF1F8"), ("#6E6E6E", "#F0F0F0")
"""From the first rank to the last; grey where a metric ranks fewer explainers than F."""
DARK = 0.42
"""Below it white stands out more from the shade than ink."""
AGREES, OPPOSES, UNTOLD = "#0072B2", "#D55E00", "#B8B8B8"
ALPHA = 0.05
"""A tau whose p is not below it is grey and hatched: it is not told from no agreement."""
COLUMN_WIDTH, NAMES_WIDTH, ROW_HEIGHT, TAU_HEIGHT, MAX_COLUMNS = 0.72, 1.9, 0.3, 1.15, 2


def draw_evaluation_collapse(tables: Tables, png: Path, svg: Path) -> None:
    """Draw each explainer's rank under each metric, and above it Kendall's tau of the metric with F.

    tables: `samples`, `rankings` and `taus`. A matrix a cell, explainers in the order of F.
    """
    rankings = tables["rankings"]
    cells = [cell for cell in cells_of(tables["samples"]) if len(cell.rows(rankings))]
    if not cells:
        draw_words(png, svg, "no metric has a value for two explainers, so there are no rankings")
        return
    shown = cells[:MAX_CONTEXTS]
    metrics, n_names = _metrics(rankings), rankings["explainer"].nunique()
    n_columns = min(len(shown), MAX_COLUMNS)
    n_rows = -(-len(shown) // n_columns)
    size = (NAMES_WIDTH + COLUMN_WIDTH * len(metrics), ROW_HEIGHT * n_names + TAU_HEIGHT + 1.1)
    with drawing(png, svg, max(size[0] * n_columns, 8.0), size[1] * n_rows + 0.8) as figure:
        ratios = [TAU_HEIGHT, ROW_HEIGHT * n_names] * n_rows
        grid = figure.subplots(2 * n_rows, n_columns, squeeze=False, sharex="col", height_ratios=ratios)
        for place in range(n_rows * n_columns):
            top, bottom = grid[2 * (place // n_columns) : 2 * (place // n_columns) + 2, place % n_columns]
            if place >= len(shown):
                top.set_axis_off()
                bottom.set_axis_off()
                continue
            _draw_taus(top, shown[place], tables["taus"], metrics)
            _draw_ranks(bottom, shown[place].rows(rankings), metrics)
        caption = (
            "numbers: an explainer's rank under each metric, 1 is best\n"
            "if metrics agreed, every column would fade from top to bottom as F does\n"
            "grey columns: ranks among those that have the metric, fewer than have F\n"
            "τ: on the explainers (n) and samples that both have; hatched: p is not below "
            f"{ALPHA:g}, so it is not told from 0\n"
            "deletion, SRG: one modality perturbed, the other whole (fastest fall; insertion less deletion)\n"
            "pointing game, IoU: does the map lie on the object"
        )
        figure.supxlabel(caption + more_cells(len(cells)), **CAPTION)


def _metrics(rankings: pd.DataFrame) -> list[str]:
    there = list(dict.fromkeys(rankings["metric"].astype(str)))
    return [
        F,
        *(name for name in METRICS if name in there and name != F),
        *(n for n in there if n not in METRICS),
    ]


def _draw_taus(axes: "Axes", cell: Context, taus: pd.DataFrame, metrics: Sequence[str]) -> None:
    axes.set_title(cell.title)
    axes.axhline(0, color=RULE, linewidth=1.0)
    axes.set_ylim(-1.35, 1.35)
    axes.set_yticks([-1, 0, 1], ["\N{MINUS SIGN}1", "0", "1"])
    axes.set_ylabel("Kendall's τ\nwith F", fontsize=9)
    axes.tick_params(which="both", length=0, labelsize=8.5, labelbottom=False)
    axes.spines[["top", "right", "left", "bottom"]].set_visible(False)
    rows = cell.rows(taus)
    axes.text(0, 0.08, "reference", ha="center", va="bottom", fontsize=7.5, color=SOFT)
    for place, metric in enumerate(metrics[1:], 1):
        _draw_tau(axes, place, rows, metric)


def _draw_tau(axes: "Axes", place: int, rows: pd.DataFrame, metric: str) -> None:
    pair = {F, metric}
    own = rows[[{left, right} == pair for left, right in zip(rows["left"], rows["right"], strict=True)]]
    if own.empty or not isfinite(tau := float(own["tau"].iloc[0])):
        axes.text(place, 0.08, "no τ", ha="center", va="bottom", fontsize=7.5, color=SOFT)
        return
    row, sign = own.iloc[0], 1 if tau >= 0 else -1
    told = float(row["p"]) < ALPHA
    colour = AGREES if tau >= 0 else OPPOSES
    look: dict[str, Any] = {"color": colour} if told else {"fc": "white", "ec": UNTOLD, "hatch": "////"}
    axes.bar([place], [tau], width=0.5, zorder=2, **look)
    above, below = ("bottom", "top") if sign > 0 else ("top", "bottom")
    ink = INK if told else SOFT
    axes.text(place, tau + 0.06 * sign, number(tau), ha="center", va=above, fontsize=8.5, color=ink)
    size = f"{_p_words(float(row['p']))}\nn {int(row['n'])}"
    axes.text(place, -0.08 * sign, size, ha="center", va=below, fontsize=7, color=SOFT)


def _draw_ranks(axes: "Axes", rows: pd.DataFrame, metrics: Sequence[str]) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    ranks = rows.pivot_table(index="explainer", columns="metric", values="rank").reindex(
        columns=list(metrics)
    )
    ranks = ranks.sort_values(F, kind="stable", na_position="last")
    table = ranks.to_numpy(dtype=np.float64)
    n_ranked = np.isfinite(table).sum(axis=0)
    few = n_ranked < n_ranked[0]
    shades = rank_shares(table)
    for columns, ends in ((~few, SHADES), (few, GREYS)):
        colours = LinearSegmentedColormap.from_list("ranks", ends).with_extremes(bad=(1, 1, 1, 0))
        shown = np.ma.masked_invalid(np.where(columns, shades, np.nan))
        axes.imshow(shown, cmap=colours, vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    for (i, j), shade in np.ndenumerate(shades):
        if isfinite(shade):
            words, ink = f"{table[i, j]:g}", "white" if shade < DARK else INK
        else:
            words, ink = "none", SOFT
        axes.text(j, i, words, ha="center", va="center", color=ink, fontsize=9 if words != "none" else 7.5)
    titles = [
        METRICS.get(name, name) + (f"\n({n} of {n_ranked[0]})" if lacking else "")
        for name, n, lacking in zip(metrics, n_ranked, few, strict=True)
    ]
    axes.set_xticks(range(len(metrics)), titles)
    axes.set_yticks(range(len(ranks)), list(ranks.index))
    axes.set_xticks(np.arange(len(metrics) - 1) + 0.5, minor=True)
    axes.set_yticks(np.arange(len(ranks) - 1) + 0.5, minor=True)
    axes.grid(which="minor", color="white", linewidth=2.0)
    axes.tick_params(which="both", length=0, labelsize=9)
    axes.tick_params(axis="x", labelbottom=True)
    mark_apart(axes, list(ranks.index))
    axes.spines[:].set_visible(False)


def rank_shares(ranks: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ranks (E, M) from 0, the first of a column, to 1, its last; NaN where there is none."""
    known = np.isfinite(ranks)
    lasts = np.where(known, ranks, 1).max(axis=0)
    return np.where(known, (ranks - 1) / np.maximum(lasts - 1, 1), np.nan)


def _p_words(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p {number(p, 3)}"
