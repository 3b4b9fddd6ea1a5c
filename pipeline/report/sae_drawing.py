"""What the figures of SAEs share: a look a variant, a panel a context, and missing values in words."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipeline.files import replacing
from pipeline.report.comparison_figure import DPI, STYLE
from pipeline.statistics.sae_baselines import UNTRAINED

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

INK, SOFT, RULE, GRID = "#202020", "#606060", "#B0B0B0", "#ECECEC"
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (5, 2, 1, 2)))
MAX_CONTEXTS = 4
IDENTITY = ("variant", "dictionary_size", "sae_k", "seed")
"""The columns that, with the factors, say which SAE a row is of."""
PANEL_WIDTH, LEAST_WIDTH, LEGEND_WIDTH = 3.3, 5.2, 1.7


@dataclass(frozen=True)
class Look:
    """How a variant is drawn; untrained SAEs are grey and hollow."""

    colour: str
    marker: str
    hollow: bool = False


# Okabe and Ito's colours, told apart with every common colour-vision deficiency; markers say it again.
LOOKS = {
    "topk": Look("#0072B2", "o"),
    "batchtopk": Look("#D55E00", "s"),
    "matryoshka": Look("#009E73", "D"),
    "jumprelu": Look("#CC79A7", "^"),
    "file": Look("#E69F00", "v"),
    "frozen": Look("#5F5F5F", "o", hollow=True),
    "random": Look("#9A9A9A", "X", hollow=True),
}
OTHER = Look(INK, "P")


@dataclass(frozen=True)
class Context:
    """What SAEs have in common beside themselves: dataset, model, layer and every other factor."""

    names: tuple[str, ...]
    values: tuple[str, ...]
    title: str

    def rows(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of a table that are of this context."""
        pairs = zip(self.names, self.values, strict=True)
        return table[_all([table[name].astype(str) == value for name, value in pairs], len(table))]


@dataclass(frozen=True)
class Series:
    """SAEs of one variant, and of one K where a variant comes with several (K is NaN where it has none)."""

    variant: str
    k: float
    label: str
    dashes: Any

    @property
    def look(self) -> Look:
        """The variant's look."""
        return LOOKS.get(self.variant, OTHER)

    def rows(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of a table that are of this series."""
        same = table["sae_k"].isna() if np.isnan(self.k) else table["sae_k"] == self.k
        return table[(table["variant"] == self.variant) & same]


def factors_of(table: pd.DataFrame) -> tuple[str, ...]:
    """Return the factors of a table of SAEs: the columns before `variant`."""
    columns = list(table.columns)
    return tuple(columns[: columns.index("variant")])


def contexts_of(table: pd.DataFrame) -> list[Context]:
    """Return the contexts of a table in the order of their rows, titled by the factors that differ."""
    names = factors_of(table)
    rows = table[list(names)].astype(str).itertuples(index=False, name=None)
    found = list(dict.fromkeys(rows))
    differ = [i for i in range(len(names)) if len({values[i] for values in found}) > 1]
    shown = differ or range(len(names))
    return [Context(names, values, ", ".join(_words(names[i], values[i]) for i in shown)) for values in found]


def series_of(table: pd.DataFrame) -> list[Series]:
    """Return the series of a table: variants in the order of LOOKS, others after them by name, each by K."""
    found = []
    for variant in variants_of(table):
        sizes = sorted(table.loc[table["variant"] == variant, "sae_k"].astype(float).unique())
        for i, k in enumerate(sizes):
            label = variant if len(sizes) == 1 else f"{variant} {'without K' if np.isnan(k) else f'K={k:g}'}"
            found.append(Series(variant, float(k), label, DASHES[i % len(DASHES)]))
    return found


def variants_of(table: pd.DataFrame) -> list[str]:
    """Return the variants of a table in the order of LOOKS, others after them by name."""
    names = sorted(table["variant"].astype(str).unique())
    return [name for name in LOOKS if name in names] + [name for name in names if name not in LOOKS]


def trained(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of SAEs that are neither frozen nor random."""
    return table[~table["variant"].isin(UNTRAINED)]


@contextmanager
def drawing(png: Path, svg: Path, width: float, height: float) -> "Iterator[Figure]":
    """Yield an empty figure (inches) and save it as both files; the same drawing gives the same bytes."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        figure = Figure(figsize=(width, height), dpi=DPI, layout="constrained")
        yield figure
        with replacing(png) as temporary:
            figure.savefig(temporary, format="png", metadata={"Software": None})
        figure.set_layout_engine("none")  # both files have one layout
        with replacing(svg) as temporary:
            figure.savefig(temporary, format="svg", metadata={"Date": None, "Creator": None})


def width_of(n_columns: int) -> float:
    """Return the width (inches) of a figure with so many panels and its legend beside each other."""
    return max(LEAST_WIDTH, PANEL_WIDTH * n_columns + 0.6) + LEGEND_WIDTH


def dress(axes: "Axes") -> None:
    """Leave of a panel's frame what is needed to read it."""
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(length=3, color=RULE, labelsize=9)


def handle(series: Series) -> "Line2D":
    """Return the sample of a series that a legend shows."""
    from matplotlib.lines import Line2D

    look = series.look
    face = "white" if look.hollow else look.colour
    return Line2D(
        [], [], color=look.colour, marker=look.marker, mfc=face, ls=series.dashes, lw=1.8, label=series.label
    )


def add_legend(figure: "Figure", handles: "Sequence[Artist]", *, above: bool = False) -> None:
    """Put a legend to the right of the panels, or in one line above them."""
    if above:
        figure.legend(
            handles=handles, loc="outside upper left", ncols=len(handles), frameon=False, fontsize=9
        )
    else:
        figure.legend(handles=handles, loc="outside right upper", frameon=False, fontsize=9)


def say_nothing_known(axes: "Axes", reason: str) -> None:
    """Say in the middle of an empty panel why it is empty."""
    axes.grid(visible=False)
    axes.text(0.5, 0.5, reason, transform=axes.transAxes, ha="center", va="center", color=SOFT, fontsize=9)


def say_missing(axes: "Axes", missing: Sequence[str]) -> None:
    """Say at the foot of a panel what is not in it."""
    if missing:
        axes.annotate(
            "\n".join(["not computed:", *missing]),
            (0.02, 0.02),
            xycoords="axes fraction",
            color=SOFT,
            fontsize=7.5,
            zorder=5,
        )


def count_missing(table: pd.DataFrame, series: Sequence[Series], column: str) -> list[str]:
    """Return in words how many SAEs of each series have no value in a column."""
    words = []
    for each in series:
        rows = each.rows(table)
        if n := int(rows[column].isna().sum()):
            words.append(f"{each.label} ({n} of {len(rows)} SAEs)")
    return words


def left_out(n_contexts: int) -> str:
    """Return in words how many contexts have no panel."""
    more = n_contexts - MAX_CONTEXTS
    return f"\n{more} more combinations of dataset, model and layer are in the table" if more > 0 else ""


def _words(factor: str, value: str) -> str:
    try:
        float(value)
    except ValueError:
        return value
    return f"{factor} {value}"


def _all(masks: Sequence[pd.Series], n_rows: int) -> NDArray[np.bool_]:
    found = np.ones(n_rows, dtype=np.bool_)
    for mask in masks:
        found &= mask.to_numpy(dtype=np.bool_)
    return found
