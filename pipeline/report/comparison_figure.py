"""The figure of a comparison: each method's mean over units with its interval, and its error."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipeline.files import replacing
from pipeline.statistics.cells import POOLED, is_seed, kept_apart
from pipeline.statistics.comparison import Comparison

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, told apart with every common colour-vision deficiency.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "D", "^", "v", "P", "X")
STYLE: dict[Any, Any] = {
    "svg.hashsalt": "assay",
    "svg.fonttype": "path",
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelcolor": "#404040",
    "axes.edgecolor": "#B0B0B0",
    "xtick.color": "#606060",
    "ytick.color": "#202020",
    "figure.facecolor": "white",
}
WIDTH, ROW_HEIGHT, PANEL_EXTRA, DPI = 9.0, 0.26, 0.95, 160
MAX_FACETS, MAX_COLUMNS, MAX_DOTS = 12, 3, 20_000
VECTOR_DOTS = 4_000
GOLDEN = 0.6180339887498949


@dataclass(frozen=True)
class _Plan:
    """What goes where: facets are cells of what is judged and of seeds, series are ways of judging."""

    targets: tuple[str, ...]
    protocols: tuple[str, ...]
    facets: tuple[tuple[str, ...] | None, ...]
    series: tuple[tuple[str, ...], ...]
    methods: tuple[str, ...]

    def label(self, series: tuple[str, ...]) -> str:
        """Return the words in which this series differs from another one."""
        varying = [i for i in range(len(self.protocols)) if len({other[i] for other in self.series}) > 1]
        return ", ".join(_words(self.protocols[i], series[i]) for i in varying)

    def title(self, facet: tuple[str, ...] | None) -> str:
        """Return the words in which this facet differs from another one."""
        if facet is None:
            return "all units" if len(self.facets) == 1 else "all cells"
        cells = [other for other in self.facets if other is not None]
        varying = [i for i in range(len(self.targets)) if len({other[i] for other in cells}) > 1]
        return ", ".join(_words(self.targets[i], facet[i]) for i in varying)

    def place(self, method: str, series: tuple[str, ...]) -> float:
        """Return the height of one method's row in one series; methods are 1 apart."""
        step = 0.8 / len(self.series)
        return self.methods.index(method) + step * (self.series.index(series) - (len(self.series) - 1) / 2)


def draw_comparison(comparison: Comparison, scores: pd.DataFrame, path_png: Path, path_svg: Path) -> None:
    """Draw means with intervals over unit-level dots, a facet a cell, and the MAE where it is known.

    The first facet pools all cells; more than 11 cells are left to the table. Methods stand in the
    order of their first overall ranking. The same input gives the same bytes.
    """
    import matplotlib
    from matplotlib.figure import Figure

    plan = _plan(comparison)
    errors = comparison.errors[comparison.errors["level"] == "overall"]
    n_panels = len(plan.facets) + (not errors.empty)
    n_columns = min(n_panels, MAX_COLUMNS, 2 if n_panels == 4 else MAX_COLUMNS)
    n_rows = -(-n_panels // n_columns)
    height = ROW_HEIGHT * len(plan.methods) * max(1.6, len(plan.series)) + PANEL_EXTRA
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        figure = Figure(figsize=(WIDTH, n_rows * height + 0.4), dpi=DPI, layout="constrained")
        panels = figure.subplots(n_rows, n_columns, squeeze=False).ravel()
        limits = _limits(comparison, scores)
        for number, (axes, facet) in enumerate(zip(panels, plan.facets, strict=False)):
            _draw_facet(axes, plan, facet, comparison, scores)
            _dress(axes, plan, names=number % n_columns == 0)
            axes.set(title=plan.title(facet), xlim=limits)
            axes.locator_params(axis="x", nbins=6)
        if not errors.empty:
            _draw_errors(panels[len(plan.facets)], plan, errors)
            _dress(panels[len(plan.facets)], plan, names=len(plan.facets) % n_columns == 0)
        for axes in panels[n_panels:]:
            axes.set_axis_off()
        _label(figure, plan, _caption(plan, comparison, scores))
        _save(figure, path_png, path_svg)


def _plan(comparison: Comparison) -> _Plan:
    protocols = tuple(kept_apart(comparison.factors))
    targets = tuple(name for name in comparison.factors if name not in protocols)
    overall = comparison.methods[comparison.methods["level"] == "overall"]
    cells = comparison.methods[comparison.methods["level"] == "cell"]
    series = sorted(_keys(overall, protocols), key=_crowd_first)
    first = overall[_matches(overall, protocols, series[0])].sort_values("rank")["method"]
    found = _keys(cells, targets)
    facets = found if 1 < len(found) < MAX_FACETS else []
    methods = dict.fromkeys([*first, *overall["method"]])
    return _Plan(targets, protocols, (None, *facets), tuple(series), tuple(methods))


def _keys(table: pd.DataFrame, names: tuple[str, ...]) -> list[tuple[str, ...]]:
    rows = table[list(names)].itertuples(index=False, name=None)
    return sorted({tuple(str(value) for value in row) for row in rows})


def _crowd_first(series: tuple[str, ...]) -> tuple[int, tuple[str, ...]]:
    order = [i for i, name in enumerate(("crowd", "automatic", "oracle")) if name in series]
    return (order[0] if order else 0, series)


def _matches(table: pd.DataFrame, names: tuple[str, ...], key: tuple[str, ...]) -> NDArray[np.bool_]:
    found = np.ones(len(table), dtype=np.bool_)
    for name, value in zip(names, key, strict=True):
        found &= (table[name].astype(str) == value).to_numpy()
    return found


def _words(factor: str, value: str) -> str:
    return value if not _is_number(value) else f"{factor} {value}"


def _is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True


def _limits(comparison: Comparison, scores: pd.DataFrame) -> tuple[float, float]:
    """Return one range for all facets: all dots, intervals and zero, with a margin."""
    ends = [scores["estimate"], comparison.methods["low"], comparison.methods["high"], pd.Series([0.0])]
    values = pd.concat(ends).dropna()
    margin = 0.04 * max(float(values.max() - values.min()), 0.1)
    return float(values.min()) - margin, float(values.max()) + margin


def _draw_facet(
    axes: "Axes",
    plan: _Plan,
    facet: tuple[str, ...] | None,
    comparison: Comparison,
    scores: pd.DataFrame,
) -> None:
    methods = comparison.methods[comparison.methods["level"] == ("overall" if facet is None else "cell")]
    if facet is not None:
        methods = methods[_matches(methods, plan.targets, facet)]
        scores = scores[_matches(scores, plan.targets, facet)]
    axes.axvline(0, color="#B0B0B0", linewidth=0.8, zorder=0)
    for number, series in enumerate(plan.series):
        _draw_dots(axes, plan, number, scores[_matches(scores, plan.protocols, series)])
        _draw_means(axes, plan, number, methods[_matches(methods, plan.protocols, series)])


def _draw_dots(axes: "Axes", plan: _Plan, number: int, scores: pd.DataFrame) -> None:
    """Draw a dot a unit, spread over the row by the golden ratio: even, and the same every time."""
    shown = scores.dropna(subset=["estimate"]).sort_values(["method", "unit", "estimate"], kind="stable")
    shown = shown.iloc[:: -(-len(shown) // MAX_DOTS) or 1]
    spread = (np.arange(len(shown)) * GOLDEN % 1 - 0.5) * 0.5 / len(plan.series)
    places = np.array([plan.place(str(method), plan.series[number]) for method in shown["method"]])
    axes.scatter(
        shown["estimate"],
        places + spread,
        s=5 if len(shown) < 500 else 2,
        color=COLOURS[number % len(COLOURS)],
        alpha=0.28 if len(shown) < 500 else 0.14,
        linewidths=0,
        rasterized=len(shown) > VECTOR_DOTS,
        zorder=1,
    )


def _draw_means(axes: "Axes", plan: _Plan, number: int, methods: pd.DataFrame) -> None:
    places = [plan.place(method, plan.series[number]) for method in methods["method"]]
    colour = COLOURS[number % len(COLOURS)]
    axes.hlines(places, methods["low"], methods["high"], color="white", linewidth=4.6, zorder=2)
    axes.hlines(places, methods["low"], methods["high"], color=colour, linewidth=2.2, zorder=3)
    axes.scatter(
        methods["mean"],
        places,
        s=42,
        marker=MARKERS[number % len(MARKERS)],
        color=colour,
        edgecolors="white",
        linewidths=0.9,
        zorder=4,
    )


def _draw_errors(axes: "Axes", plan: _Plan, errors: pd.DataFrame) -> None:
    """Draw the mean absolute error by method, and by a dashed line that of all methods together."""
    for number, series in enumerate(plan.series):
        rows = errors[_matches(errors, plan.protocols, series)]
        colour = COLOURS[number % len(COLOURS)]
        methods = rows[rows["method"].isin(plan.methods)].dropna(subset=["mae"])
        places = [plan.place(method, series) for method in methods["method"]]
        axes.scatter(methods["mae"], places, s=34, marker=MARKERS[number % len(MARKERS)], color=colour)
        for pooled in rows[rows["method"] == POOLED]["mae"].dropna():
            axes.axvline(pooled, color=colour, linewidth=1, linestyle=(0, (4, 3)), zorder=0)
    axes.set(title="error against the attributes", xlabel="MAE: mean |score - truth|\n(dashed: all methods)")
    largest = errors["mae"].max()
    axes.set_xlim(0, 1.08 * largest if largest > 0 else 1)
    axes.locator_params(axis="x", nbins=6, prune="upper")  # a label at the figure's edge would be cut


def _dress(axes: "Axes", plan: _Plan, *, names: bool) -> None:
    axes.set_ylim(len(plan.methods) - 0.45, -0.55)
    axes.set_yticks(range(len(plan.methods)), plan.methods if names else [""] * len(plan.methods))
    axes.tick_params(length=0, labelsize=9)
    axes.tick_params(axis="y", labelsize=10)
    axes.grid(axis="x", color="#ECECEC", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)


def _caption(plan: _Plan, comparison: Comparison, scores: pd.DataFrame) -> str:
    """Return what a mark, a line and a dot are, and what the line does not cover."""
    scored = scores[scores["estimate"].notna()]
    crowded = any(_matches(scored, plan.protocols, series).sum() > MAX_DOTS for series in plan.series)
    dots = "the dots are a sample of units" if crowded else "a dot is a unit"
    if seeds := [name for name in comparison.factors if is_seed(name)]:
        dots += f" (one of its scores where there are several by {', '.join(seeds)})"
    return (
        f"score of an explanation: mean over units; {dots}\n"
        f"line: {100 * comparison.confidence:g}% interval over units, for these images and raters; "
        "not the error against the truth"
    )


def _label(figure: "Figure", plan: _Plan, caption: str) -> None:
    from matplotlib.lines import Line2D

    figure.supxlabel(caption, fontsize=9.5, color="#404040")
    if len(plan.series) < 2:
        return
    handles = [
        Line2D([], [], color=COLOURS[i % len(COLOURS)], marker=MARKERS[i % len(MARKERS)], linewidth=2.2)
        for i in range(len(plan.series))
    ]
    labels = [plan.label(series) for series in plan.series]
    figure.legend(handles, labels, loc="outside upper right", ncols=min(4, len(labels)), frameon=False)


def _save(figure: "Figure", path_png: Path, path_svg: Path) -> None:
    with replacing(path_png) as temporary:
        figure.savefig(temporary, format="png", metadata={"Software": None})
    with replacing(path_svg) as temporary:
        figure.savefig(temporary, format="svg", metadata={"Date": None, "Creator": None})
