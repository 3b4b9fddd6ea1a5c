"""F against the exact Shapley interaction: how well the cheap measure ranks what the dear one ranks."""

from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from pipeline.report.sae_drawing import (
    GRID,
    MAX_CONTEXTS,
    RULE,
    SOFT,
    Context,
    drawing,
    dress,
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
    number,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROW_HEIGHT = 3.5
MEASURE = "spearman"
F, DIVIDEND, SII = "f", "dividend", "sii"
LEVELS = {
    "pooled": "all points at once",
    "across": "across samples,\nan explainer at a time",
    "within": "within a sample,\nover its explainers",
}
COLOURS = {F: "#0072B2", DIVIDEND: "#8A6D00"}
MARKERS = {F: "o", DIVIDEND: "s"}
NAMES = {F: "F", DIVIDEND: "D alone"}
NO_SII = "no sample has an exact SII, so F cannot be compared with it"


def draw_f_against_sii(tables: Tables, png: Path, svg: Path) -> None:
    """Draw F against SII, a point a (sample, explainer), and how F and D alone agree with SII.

    tables: `samples`, `scores`, `sii`, `explainers` and `agreement`. A row of panels a cell that has SII.
    """
    cells = [cell for cell in cells_of(tables["samples"]) if len(cell.rows(tables["sii"]))]
    if not cells:
        draw_words(png, svg, NO_SII)
        return
    shown, drawn = cells[:MAX_CONTEXTS], drawn_of(tables["explainers"])
    asked = set(tables["sii"]["explainer"])
    drawn = [each for each in drawn if each.name in asked]
    with drawing(png, svg, 11.0, ROW_HEIGHT * len(shown) + 0.9) as figure:
        grid = figure.subplots(len(shown), 2, squeeze=False, sharex="col", width_ratios=[1, 0.95])
        for cell, (left, right) in zip(shown, grid, strict=True):
            left.set_title(cell.title)
            _draw_points(left, cell, tables, drawn)
            _draw_agreement(right, cell.rows(tables["agreement"]))
        grid[0][1].set_title("agreement with SII (Spearman)")
        grid[-1][0].set_xlabel("exact SII, summed over cross-modal pairs")
        grid[-1][1].set_xticks([-1, -0.5, 0, 0.5, 1], [number(tick, 1) for tick in (-1, -0.5, 0, 0.5, 1)])
        grid[-1][1].set_xlabel("1: the same order, 0: none, \N{MINUS SIGN}1: reversed")
        caption = (
            "a point: one sample under one explainer; D is one number a sample, the same for all explainers\n"
            "where D alone agrees as well, F tells samples apart; whether it tells explainers apart,"
            " the lowest row says"
        )
        figure.supxlabel(caption + more_cells(len(cells)), **CAPTION)
        figure.legend(
            handles=[handle(each) for each in drawn], loc="outside right upper", frameon=False, fontsize=9
        )


def _draw_points(axes: "Axes", cell: Context, tables: Tables, drawn: Sequence[Drawn]) -> None:
    dress(axes)
    axes.set_ylabel("F")
    scores, sii = cell.rows(tables["scores"]), cell.rows(tables["sii"])
    both = sii[["explainer", "sample_id", SII]].merge(
        scores[["explainer", "sample_id", F]], on=["explainer", "sample_id"], how="left"
    )
    known = both.dropna(subset=[F, SII])
    if known.empty:
        say_nothing_known(axes, "no sample has both F and SII")
        return
    axes.axhline(0, color=RULE, linewidth=0.9, zorder=1)
    axes.axvline(0, color=RULE, linewidth=0.9, zorder=1)
    for each in drawn:
        own = each.rows(known)
        look = each.look
        axes.scatter(
            own[SII], own[F], s=34, marker=look.marker, alpha=0.85, zorder=3,
            facecolors="none" if look.hollow else look.colour,
            edgecolors=look.colour if look.hollow else "white", linewidths=1.3 if look.hollow else 0.6,
        )  # fmt: skip
    samples = counted(known["sample_id"].nunique(), "sample")
    words = f"{samples}, {counted(known['explainer'].nunique(), 'explainer')}"
    if n_missing := len(both) - len(known):
        words += f"; {counted(n_missing, 'point')} without F or SII"
    axes.margins(0.06, 0.1)
    note(axes, words, x=0.02, y=0.95)


def _draw_agreement(axes: "Axes", rows: pd.DataFrame) -> None:
    rows = rows[(rows["measure"] == MEASURE) & (rows["right"] == SII)]
    axes.set_xlim(-1.05, 1.05)
    axes.set_ylim(len(LEVELS) - 0.5, -0.5)
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(length=0, labelsize=9)
    if rows.empty:
        axes.set_yticks([])
        say_nothing_known(axes, "agreement was not computed")
        return
    axes.set_yticks(range(len(LEVELS)), list(LEVELS.values()))
    axes.axvline(0, color=RULE, linewidth=1.0, zorder=1)
    for place, level in enumerate(LEVELS):
        for name, shift in ((F, -0.2), (DIVIDEND, 0.2)):
            own = rows[(rows["level"] == level) & (rows["left"] == name)]
            _draw_one(axes, own.iloc[0] if len(own) else None, name, place + shift)


def _draw_one(axes: "Axes", row: "pd.Series | None", name: str, place: float) -> None:
    colour = COLOURS[name]
    said = f"{NAMES[name]}: not computed"
    if row is not None and not isfinite(row["value"]):
        alike = name == DIVIDEND and row["level"] == "within"
        reason = "one number a sample ranks no explainers" if alike else "constant or too few"
        said = f"{NAMES[name]}: undefined ({reason})"
    if row is None or not isfinite(row["value"]):
        axes.text(-1.0, place, said, va="center", fontsize=8, color=SOFT)
        return
    axes.plot([row["low"], row["high"]], [place] * 2, color=colour, lw=2.0, zorder=3)
    axes.plot(
        [row["value"]], [place], marker=MARKERS[name], ms=7, color=colour, mec="white", mew=0.8, zorder=4
    )
    axes.text(
        1.02, place, f"{NAMES[name]}  {number(row['value'])}\n[{number(row['low'])}, {number(row['high'])}]",
        transform=axes.get_yaxis_transform(), va="center", fontsize=8, color=colour,
    )  # fmt: skip
