"""F against the exact Shapley interaction: how well the cheap measure ranks what the dear one ranks."""

from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from pipeline.report.sae_drawing import (
    GRID,
    INK,
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
from pipeline.statistics.vlm_agreement import SHARE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROW_HEIGHT = 3.5
MEASURE = "spearman"
F, DIVIDEND = "f", "dividend"
EXACT = {"sii": "sum", "sii_top": "top pair"}
LEVELS = {
    "pooled": "all points at once",
    "across": "across samples, an explainer at a time",
    "within": "within a sample, over its explainers (D ranks none)",
}
COLOURS = {F: "#0072B2", DIVIDEND: "#8A6D00"}
MARKERS = {F: "o", DIVIDEND: "s"}
NAMES = {F: "F", DIVIDEND: "D alone"}
NO_SII = "no sample has an exact SII, so F cannot be compared with it"
CAPTION_WORDS = (
    "a point: one sample under one explainer, whose order parts the image and the question into groups\n"
    "sum: all groups together are the whole image and question whatever the explainer, so it is near D:"
    " it tells samples apart, not explainers\n"
    "top pair: the first group of patches with the first group of tokens, so it is about what the explainer"
    " ranks first\n"
    "D is one number a sample: where it agrees as well as F, F tells samples apart;"
    " whether F tells explainers apart, the rows within a sample say"
)


def draw_f_against_sii(tables: Tables, png: Path, svg: Path) -> None:
    """Draw F against the sum of SII and its top pair, a point a (sample, explainer), and how they agree.

    tables: `samples`, `scores`, `sii`, `explainers` and `agreement`. A row of panels a cell that has SII.
    """
    cells = [cell for cell in cells_of(tables["samples"]) if len(cell.rows(tables["sii"]))]
    if not cells:
        draw_words(png, svg, NO_SII)
        return
    shown, drawn = cells[:MAX_CONTEXTS], drawn_of(tables["explainers"])
    asked = set(tables["sii"]["explainer"])
    drawn = [each for each in drawn if each.name in asked]
    with drawing(png, svg, 13.5, ROW_HEIGHT * len(shown) + 1.3) as figure:
        grid = figure.subplots(len(shown), 3, squeeze=False, sharex="col", width_ratios=[1, 1, 1.05])
        for cell, (left, middle, right) in zip(shown, grid, strict=True):
            left.set_title(cell.title)
            middle.sharey(left)
            left.set_ylabel("F")
            for axes, measure in zip((left, middle), EXACT, strict=True):
                _draw_points(axes, cell, tables, drawn, measure)
            _draw_agreement(right, cell.rows(tables["agreement"]))
        grid[0][2].set_title("agreement of F and D with SII (Spearman)")
        grid[-1][0].set_xlabel("exact SII, sum over all cross-modal pairs")
        grid[-1][1].set_xlabel("exact SII, top pair")
        grid[-1][2].set_xticks([-1, -0.5, 0, 0.5, 1], [number(tick, 1) for tick in (-1, -0.5, 0, 0.5, 1)])
        grid[-1][2].set_xlabel("1: the same order, 0: none, \N{MINUS SIGN}1: reversed")
        figure.supxlabel(CAPTION_WORDS + more_cells(len(cells)), **CAPTION)
        figure.legend(
            handles=[handle(each) for each in drawn], loc="outside right upper", frameon=False, fontsize=9
        )


def _draw_points(axes: "Axes", cell: Context, tables: Tables, drawn: Sequence[Drawn], measure: str) -> None:
    dress(axes)
    scores, sii = cell.rows(tables["scores"]), cell.rows(tables["sii"])
    both = sii[["explainer", "sample_id", measure]].merge(
        scores[["explainer", "sample_id", F]], on=["explainer", "sample_id"], how="left"
    )
    known = both.dropna(subset=[F, measure])
    if known.empty:
        say_nothing_known(axes, "no sample has both F and SII")
        return
    axes.axhline(0, color=RULE, linewidth=0.9, zorder=1)
    axes.axvline(0, color=RULE, linewidth=0.9, zorder=1)
    for each in drawn:
        own = each.rows(known)
        look = each.look
        axes.scatter(
            own[measure], own[F], s=34, marker=look.marker, alpha=0.85, zorder=3,
            facecolors="none" if look.hollow else look.colour,
            edgecolors=look.colour if look.hollow else "white", linewidths=1.3 if look.hollow else 0.6,
        )  # fmt: skip
    axes.margins(0.06, 0.22)
    note(axes, _size(known, len(both) - len(known)), x=0.02, y=0.95)
    if words := _apart(cell.rows(tables["agreement"]), measure):
        note(axes, words, x=0.02, y=0.895)


def _size(known: pd.DataFrame, n_missing: int) -> str:
    samples = counted(known["sample_id"].nunique(), "sample")
    words = f"{samples}, {counted(known['explainer'].nunique(), 'explainer')}"
    return words + (f"; {counted(n_missing, 'point')} without F or SII" if n_missing else "")


def _apart(agreement: pd.DataFrame, measure: str) -> str:
    """Return in words how much of the variance of SII and of F lies between a sample's explainers."""
    own = agreement[agreement["measure"] == SHARE].set_index("left")["value"].dropna()
    if measure not in own or F not in own:
        return ""
    return f"of its variance {own[measure]:.0%} is within samples (F {own[F]:.0%})"


def _draw_agreement(axes: "Axes", rows: pd.DataFrame) -> None:
    """Draw a block a level: a row for the sum and one for the top pair, F and D alone in each."""
    rows = rows[(rows["measure"] == MEASURE) & rows["right"].isin(list(EXACT))]
    axes.set_xlim(-1.05, 1.05)
    axes.set_ylim(3 * len(LEVELS) - 0.4, -0.5)
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(length=0, labelsize=9)
    if rows.empty:
        axes.set_yticks([])
        say_nothing_known(axes, "agreement was not computed")
        return
    places = {(level, name): 3 * i + j + 1 for i, level in enumerate(LEVELS) for j, name in enumerate(EXACT)}
    axes.set_yticks(list(places.values()), [EXACT[name] for _, name in places])
    axes.axvline(0, color=RULE, linewidth=1.0, zorder=1)
    for i, words in enumerate(LEVELS.values()):
        axes.text(-1.05, 3 * i + 0.1, words, va="center", fontsize=8.5, color=INK, weight="bold")
    for (level, name), place in places.items():
        both = rows[(rows["level"] == level) & (rows["right"] == name)]
        shifts = {F: 0.0} if level == "within" else {F: -0.19, DIVIDEND: 0.24}
        for left, shift in shifts.items():
            own = both[both["left"] == left]
            _draw_one(axes, own.iloc[0] if len(own) else None, left, place + shift)


def _draw_one(axes: "Axes", row: "pd.Series | None", name: str, place: float) -> None:
    colour = COLOURS[name]
    if row is None or not isfinite(row["value"]):
        reason = "not computed" if row is None else "undefined (constant or too few)"
        axes.text(-1.0, place, f"{NAMES[name]}: {reason}", va="center", fontsize=7.5, color=SOFT)
        return
    axes.plot([row["low"], row["high"]], [place] * 2, color=colour, lw=2.0, zorder=3)
    axes.plot(
        [row["value"]], [place], marker=MARKERS[name], ms=6.5, color=colour, mec="white", mew=0.8, zorder=4
    )
    axes.text(
        1.02, place, f"{NAMES[name]}  {number(row['value'])} [{number(row['low'])}, {number(row['high'])}]",
        transform=axes.get_yaxis_transform(), va="center", fontsize=7.5, color=colour,
    )  # fmt: skip
