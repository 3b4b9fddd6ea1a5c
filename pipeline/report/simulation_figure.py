"""Figures of the simulation study: error against evaluations, and against raters an input."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from pipeline.files import replacing
from pipeline.report.comparison_figure import DPI, STYLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {
    "uniform+majority": "#9A9A9A",
    "uniform+bragg_siglip": "#E69F00",
    "mgis+majority": "#56B4E9",
    "mgis+bragg_siglip": "#D55E00",
    "active+bragg_em+combined": "#0072B2",
    "active+bragg_em+combined m=5": "#009E73",
    "mgis+bragg_em+difference": "#CC79A7",
}
RATERS = {
    "symmetric": "misses and false alarms 23%",
    "asymmetric": "misses 17%, false alarms 2%",
}
SHADES = {
    "avg": "#9A9A9A",
    "majority": "#56B4E9",
    "bragg_uniform": "#E69F00",
    "bragg_siglip": "#D55E00",
    "bragg_em": "#0072B2",
}
LEAST_BRIER = 1e-5


def draw_curves(curves: pd.DataFrame, stem: Path) -> None:
    """Write stem.png and stem.svg: RCE against evaluations, a panel for each kind of raters."""
    lines = _Lines("combination", "evaluations", "rce", COLOURS)
    _draw(curves, lines, stem, "evaluations a pair (images x raters)", "RCE")


def draw_errors_by_raters(errors: pd.DataFrame, stem: Path) -> None:
    """Write stem.png and stem.svg: Brier score against raters an input, a panel for each kind of raters."""
    lines = _Lines("aggregation", "n_raters", "brier", SHADES)
    _draw(
        errors.assign(brier=errors["brier"].clip(LEAST_BRIER)), lines, stem, "raters an input", "Brier score"
    )


@dataclass(frozen=True)
class _Lines:
    """A line for each colour: rows whose `column` is its name, y against x."""

    column: str
    x: str
    y: str
    colours: Mapping[str, str]


def _draw(table: pd.DataFrame, lines: _Lines, stem: Path, x_label: str, y_label: str) -> None:
    from matplotlib import rc_context

    with rc_context(STYLE):
        figure, panels = _panels(table)
        for panel, (raters, part) in zip(panels, table.groupby("raters", sort=False), strict=True):
            for name, colour in lines.colours.items():
                own = part[part[lines.column] == name]
                panel.plot(own[lines.x], own[lines.y], color=colour, marker="o", ms=3, lw=1.6, label=name)
            _dress(panel, RATERS[str(raters)], x_label)
        panels[0].set_ylabel(y_label)
        panels[-1].legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.01, 1.0))
        _save(figure, stem)


def _panels(table: pd.DataFrame) -> tuple["Figure", list["Axes"]]:
    from matplotlib.figure import Figure

    n_panels = table["raters"].nunique()
    figure = Figure(figsize=(4.2 * n_panels + 2.4, 3.6), layout="constrained")
    return figure, list(figure.subplots(1, n_panels, sharey=True, squeeze=False)[0])


def _dress(panel: "Axes", title: str, label: str) -> None:
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_title(title)
    panel.set_xlabel(label)
    panel.grid(which="both", color="#EFEFEF", lw=0.6)
    panel.spines[["top", "right"]].set_visible(False)


def _save(figure: "Figure", stem: Path) -> None:
    for suffix in ("png", "svg"):
        with replacing(stem.with_suffix(f".{suffix}")) as temporary:
            figure.savefig(
                temporary, format=suffix, dpi=DPI, metadata={"Date": None} if suffix == "svg" else None
            )
