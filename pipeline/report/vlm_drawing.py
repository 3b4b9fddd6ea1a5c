"""What the figures of the VLM track share: cells, a look an explainer, and numbers in words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from pipeline.report.sae_drawing import (
    DASHES,
    INK,
    MAX_CONTEXTS,
    SOFT,
    Context,
    Look,
    drawing,
    say_nothing_known,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

Tables = Mapping[str, pd.DataFrame]

RANDOM, UPPER, LOWER = "random", "occlusion", "inverted_occlusion"
BOUNDS = {UPPER: "upper bound", LOWER: "lower bound"}
"""What the metric must put at its two ends: the drops of single players, and their inversion."""

MINUS = "\N{MINUS SIGN}"
CAPTION = {"fontsize": 9.5, "color": "#404040"}

# Okabe and Ito's colours where they reach; no two explainers share a marker, which says it again.
LOOKS = {
    UPPER: Look(INK, "^"),
    LOWER: Look(INK, "v"),
    RANDOM: Look("#858585", "o", hollow=True),
    "rollout": Look("#0072B2", "o"),
    "grad_rollout": Look("#56B4E9", "s"),
    "ig": Look("#D55E00", "D"),
    "input_x_gradient": Look("#E69F00", "P"),
    "attnlrp": Look("#CC79A7", "X"),
    "gradcam": Look("#009E73", "<"),
    "llava_cam": Look("#6A3D9A", ">"),
    "tam": Look("#8C564B", "p"),
}
OTHER_COLOURS = ("#5F7A00", "#B8407A", "#00868B", "#7F6000")
OTHER_MARKERS = ("*", "h", "d", "8", "H")


@dataclass(frozen=True)
class Drawn:
    """An explainer as it is drawn; one explainer with other settings has the colour and another marker."""

    name: str
    look: Look
    dashes: Any

    @property
    def face(self) -> str:
        """The colour inside the marker."""
        return "white" if self.look.hollow else self.look.colour

    def rows(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of a table that are of this explainer."""
        return table[table["explainer"] == self.name]


def cells_of(samples: pd.DataFrame) -> list[Context]:
    """Return the cells of `samples` in the order of their rows, titled by the factors that differ."""
    names = tuple(samples.columns[: list(samples.columns).index("sample_id")])
    found = list(dict.fromkeys(samples[list(names)].astype(str).itertuples(index=False, name=None)))
    differ = [i for i in range(len(names)) if len({values[i] for values in found}) > 1]
    shown = differ or range(len(names))
    return [
        Context(names, values, ", ".join(_titled(names[i], values[i]) for i in shown)) for values in found
    ]


def drawn_of(explainers: pd.DataFrame, shown: pd.DataFrame | None = None) -> list[Drawn]:
    """Return the explainers of the rows `shown` by mean F, highest first, with looks that fit all explainers.

    Default: the rows of the mean over cells, or of the one cell. Explainers without F come last; equal ones
    by name.
    """
    if shown is None:
        level = "overall" if (explainers["level"] == "overall").any() else "cell"
        shown = explainers[explainers["level"] == level]
    means = shown.groupby("explainer")["mean_f"].mean()
    names = sorted(means.index, key=lambda name: (-means[name] if isfinite(means[name]) else 1e9, name))
    looks = _looks(sorted(map(str, explainers["explainer"].unique())))
    return [looks[name] for name in names]


def handle(drawn: Drawn, *, line: bool = False) -> "Line2D":
    """Return the sample of an explainer that a legend shows."""
    from matplotlib.lines import Line2D

    look = drawn.look
    style = drawn.dashes if line else "none"
    return Line2D(
        [],
        [],
        color=look.colour,
        marker=look.marker,
        mfc=drawn.face,
        ls=style,
        lw=1.6,
        ms=5.5,
        label=drawn.name,
    )


def draw_words(png: Path, svg: Path, reason: str) -> None:
    """Draw a figure that only says why there is nothing to see."""
    with drawing(png, svg, 6.4, 1.6) as figure:
        axes = figure.subplots()
        axes.set_axis_off()
        say_nothing_known(axes, reason)


def more_cells(n_cells: int) -> str:
    """Return in words how many cells have no panel."""
    more = n_cells - MAX_CONTEXTS
    return f"\n{more} more {'cell is' if more == 1 else 'cells are'} in the tables" if more > 0 else ""


def number(value: float, digits: int = 2) -> str:
    """Return a number with a true minus sign, "-" where there is none."""
    return f"{round(value, digits) + 0.0:.{digits}f}".replace("-", MINUS) if isfinite(value) else "-"


def counted(n: int, noun: str) -> str:
    """Return "1 sample", "24 samples"."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def note(axes: "Axes", words: str, *, x: float = 0.02, y: float = 0.02) -> None:
    """Write small soft words at the foot of a panel."""
    ground = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}
    axes.annotate(words, (x, y), xycoords="axes fraction", color=SOFT, fontsize=7.5, zorder=5, bbox=ground)


def mark_apart(axes: "Axes", names: Sequence[str]) -> None:
    """Set the row labels of random and of the bounds apart; names: the rows from the top."""
    for label, name in zip(axes.get_yticklabels(), names, strict=True):
        if name in BOUNDS or name == RANDOM:
            label.set(style="italic", color=SOFT)


def _looks(names: Sequence[str]) -> dict[str, Drawn]:
    places = count()
    found, seen = {}, dict[str, int]()
    for name in names:
        kind = name.split(" (")[0]
        look = LOOKS.get(kind) or _other(next(places))
        variant = seen[kind] = seen.get(kind, -1) + 1
        if variant and kind in LOOKS:
            look = Look(look.colour, OTHER_MARKERS[(variant - 1) % len(OTHER_MARKERS)], look.hollow)
        found[name] = Drawn(name, look, DASHES[variant % len(DASHES)])
    return found


def _other(place: int) -> Look:
    return Look(OTHER_COLOURS[place % len(OTHER_COLOURS)], OTHER_MARKERS[place % len(OTHER_MARKERS)])


def _titled(factor: str, value: str) -> str:
    try:
        float(value)
    except ValueError:
        return value
    return f"{factor} {value}"
