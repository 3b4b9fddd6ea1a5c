"""Which metrics tell a trained SAE from an untrained one: differences with intervals, and a verdict."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from pipeline.report.sae_drawing import (
    LOOKS,
    RULE,
    SOFT,
    add_legend,
    drawing,
    dress,
    say_nothing_known,
)
from pipeline.statistics.sae_baselines import UNTRAINED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

COLOURS = {"frozen": "#0072B2", "random": "#D55E00"}
MARKERS = {"frozen": "o", "random": "s"}
PLACES = {"frozen": -0.16, "random": 0.16}
VERDICTS = {"pass": "pass", "fail": "FAIL", "unknown": "unknown"}
VERDICT_COLOURS = {"pass": "#006B4E", "fail": "#A63A00", "unknown": SOFT}
MAX_COLUMNS, ROW_HEIGHT, PANEL_EXTRA = 2, 0.36, 0.75


def draw_sanity(tables: Mapping[str, pd.DataFrame], png: Path, svg: Path) -> None:
    """Draw a panel a metric: trained SAEs minus frozen and minus random ones, with intervals and verdicts.

    tables: those of the sae_comparison stage, `sanity` of which is read. A metric passes where both intervals
    lie above 0; one without an interval is hollow, one without a baseline is said in words.
    """
    sanity = tables["sanity"]
    metrics = list(dict.fromkeys(sanity["metric"])) if len(sanity) else []
    n_columns = min(MAX_COLUMNS, max(len(metrics), 1))
    n_rows = -(-max(len(metrics), 1) // n_columns)
    tallest = max((int(n) for n in sanity.groupby("metric").size()), default=1) if len(sanity) else 1
    height = n_rows * (ROW_HEIGHT * tallest + PANEL_EXTRA) + 0.9
    with drawing(png, svg, 4.6 * n_columns + 0.6, height) as figure:
        panels = figure.subplots(n_rows, n_columns, squeeze=False).ravel()
        for metric, axes in zip(metrics, panels, strict=False):
            _draw_metric(axes, _in_order(sanity[sanity["metric"] == metric]), tallest)
        if not metrics:
            say_nothing_known(panels[0], "no trained SAE in this sweep: there is nothing to check")
            dress(panels[0])
        for axes in panels[max(len(metrics), 1) :]:
            axes.set_visible(False)
        caption = "difference of means, trained minus untrained, with its bootstrap interval"
        figure.supxlabel(caption, fontsize=9.5, color="#404040")
        add_legend(figure, [_handle(kind) for kind in UNTRAINED], above=True)


def _in_order(rows: pd.DataFrame) -> pd.DataFrame:
    """Put all trained SAEs together first, and then the variants in the order of every figure."""
    place = {name: i for i, name in enumerate(LOOKS)}
    return rows.sort_values(
        "variant", kind="stable", key=lambda names: names.map(place).fillna(-1), ignore_index=True
    )


def _draw_metric(axes: "Axes", rows: pd.DataFrame, tallest: int) -> None:
    dress(axes)
    axes.grid(visible=False, axis="y")
    axes.axvline(0, color=RULE, linewidth=1.2, zorder=1)
    axes.set_title(_title(rows))
    axes.set_ylim(tallest - 0.5, -0.5)
    axes.set_yticks(range(len(rows)), [str(name) for name in rows["variant"]])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.locator_params(axis="x", nbins=5)
    for place, row in rows.iterrows():
        absent = [kind for kind in UNTRAINED if not _draw_difference(axes, row, kind, int(str(place)))]
        _say_verdict(axes, row, int(str(place)), absent)
    _limit(axes, rows)


def _draw_difference(axes: "Axes", row: pd.Series, kind: str, place: int) -> bool:
    """Draw one difference; say whether there is one."""
    middle, low, high = (float(row[f"over_{kind}{end}"]) for end in ("", "_low", "_high"))
    if np.isnan(middle):
        return False
    y, colour, known = place + PLACES[kind], COLOURS[kind], not (np.isnan(low) or np.isnan(high))
    if known:
        axes.hlines([y], [low], [high], color=colour, linewidth=2.0, zorder=2)
    axes.plot(
        [middle],
        [y],
        ls="none",
        marker=MARKERS[kind],
        ms=6,
        color=colour,
        mfc=colour if known else "white",
        mec="white" if known else colour,
        mew=0.8 if known else 1.4,
        zorder=3,
    )
    return True


def _say_verdict(axes: "Axes", row: pd.Series, place: int, absent: list[str]) -> None:
    verdict = str(row["verdict"])
    words = VERDICTS.get(verdict, verdict)
    if absent:
        words += f"\nnot computed: {', '.join(absent)}"
    axes.annotate(
        words,
        (1.02, place),
        xycoords=("axes fraction", "data"),
        va="center",
        fontsize=8.5 if not absent else 7.5,
        fontweight="bold" if verdict != "unknown" else "normal",
        color=VERDICT_COLOURS.get(verdict, SOFT),
        annotation_clip=False,
    )


def _title(rows: pd.DataFrame) -> str:
    n_items, unit = int(rows["n_items"].max()), str(rows["resampled"].iloc[0])
    counted = f" ({n_items:,} {unit if n_items != 1 else unit.removesuffix('s')})" if n_items else ""
    return f"{rows['metric'].iloc[0]}{counted}"


def _limit(axes: "Axes", rows: pd.DataFrame) -> None:
    """Show all differences, intervals and 0; every metric has a scale of its own."""
    columns = [f"over_{kind}{end}" for kind in UNTRAINED for end in ("", "_low", "_high")]
    differences = rows[columns].to_numpy(dtype=np.float64)
    values = np.append(differences[np.isfinite(differences)], 0.0)
    if len(values) == 1:
        axes.set_xticks([0.0])
    margin = 0.08 * max(float(np.ptp(values)), 1e-3)
    axes.set_xlim(float(values.min()) - margin, float(values.max()) + margin)


def _handle(kind: str) -> "Line2D":
    from matplotlib.lines import Line2D

    return Line2D([], [], color=COLOURS[kind], marker=MARKERS[kind], lw=2.0, label=f"minus {kind}")
