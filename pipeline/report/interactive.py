"""Charts that answer a pointer, by Vega-Altair, and the same charts drawn: both whole in themselves.

A chart's colours are variables of the page's style, so that one chart serves light, dark and print.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pipeline.report.sections.section import Chart

if TYPE_CHECKING:
    import altair as alt

WIDTH = 700
"""Pixels of the drawn chart; scripts give it the width of its place."""
COLOURS = tuple(f"var(--series-{i})" for i in range(8))
SHAPES = ("circle", "square", "diamond", "triangle-up", "cross", "triangle-down", "triangle-right", "stroke")
INK, SOFT, LINE = "var(--ink)", "var(--soft)", "var(--line)"
ROW = 34
MAX_MARKS = 4_000
"""Of a chart; of more, evenly spaced ones are drawn."""
GOLDEN = 0.6180339887498949
FONT = "system-ui, sans-serif"
CONFIG: dict[str, Any] = {
    "background": "transparent",
    "font": FONT,
    "aria": False,
    "view": {"stroke": None},
    "axis": {
        "labelColor": SOFT,
        "titleColor": SOFT,
        "domainColor": LINE,
        "tickColor": LINE,
        "gridColor": LINE,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "labelLimit": 170,
    },
    "axisY": {"labelColor": INK},
    "legend": {
        "labelColor": INK,
        "titleColor": SOFT,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "orient": "top",
        "columns": 4,
        "labelLimit": 220,
    },
    "mark": {"tooltip": None},
}


def ranking_chart(
    name: str,
    title: str,
    means: pd.DataFrame,
    dots: pd.DataFrame,
    axis: str,
    words: Sequence[str] = (),
) -> Chart:
    """Return a row a method in the order of `means`: its mean with an interval over a dot an item.

    means: method, mean, low, high, and columns that a pointer is told. dots: method, value, and the same.
    """
    import altair as alt

    order = [*map(str, means["method"])]
    y = alt.Y("method:N", sort=order, title=None, scale=alt.Scale(domain=order))
    shown = _thinned(dots.dropna(subset=["value"]))
    spread = (np.arange(len(shown)) * GOLDEN % 1 - 0.5).round(4)
    layers = [
        alt.Chart(_data(shown.assign(spread=spread)))
        .mark_circle(size=14, color=SOFT, opacity=0.45)
        .encode(
            x=alt.X("value:Q", title=axis),
            y=y,
            yOffset=alt.YOffset("spread:Q", scale=alt.Scale(domain=[-0.75, 0.75])),
            tooltip=_tooltips(shown, "method", "value"),
        )
    ]
    base = alt.Chart(_data(means)).encode(y=y, tooltip=_tooltips(means, "method", "mean", "low", "high"))
    layers += [
        base.mark_rule(size=3, color=COLOURS[0]).encode(x=alt.X("low:Q", title=axis), x2="high:Q"),
        base.mark_point(size=90, filled=True, color=COLOURS[0], opacity=1).encode(
            x=alt.X("mean:Q", title=axis)
        ),
    ]
    chart = _zero() + alt.layer(*layers)
    label = f"{title}: " + "; ".join(f"{row.method} {row.mean:.3f}" for row in means.itertuples())
    return _made(name, title, chart.properties(height=ROW * max(len(order), 1)), label, words)


def scatter_chart(
    name: str,
    title: str,
    points: pd.DataFrame,
    x: tuple[str, str],
    y: tuple[str, str],
    series: str | None = None,
    *,
    order: Sequence[str] = (),
    diagonal: bool = False,
    words: Sequence[str] = (),
) -> Chart:
    """Return a mark a row: x and y are (column, title); a click in the legend shows one of `series` alone.

    Every other column is told to a pointer. order: of all the series that a page has, so that each keeps its
    colour from chart to chart. diagonal: a line where both are equal.
    """
    import altair as alt

    shown = _thinned(points.dropna(subset=[x[0], y[0]]))
    base = alt.Chart(_data(shown)).encode(
        x=alt.X(_field(x[0], "Q"), title=x[1], scale=alt.Scale(zero=False, nice=True)),
        y=alt.Y(_field(y[0], "Q"), title=y[1], scale=alt.Scale(zero=False, nice=True)),
        tooltip=_tooltips(shown, *([series] if series else []), x[0], y[0]),
    )
    if series is None:
        chart: Any = base.mark_point(size=45, filled=True, color=COLOURS[0], opacity=0.7)
    else:
        picked = alt.selection_point(name=f"pick_{name}", fields=[series], bind="legend")
        chart = (
            base.mark_point(size=45, filled=True)
            .encode(
                color=_colours(series, shown[series], order),
                shape=_shapes(series, shown[series], order),
                opacity=alt.condition(picked, alt.value(0.8), alt.value(0.08)),
            )
            .add_params(picked)
            .properties(name=f"marks_{name}")
        )
    if diagonal:
        chart = _diagonal(shown, x[0], y[0]) + chart
    label = f"{title}: {len(shown)} marks, {y[1]} against {x[1]}"
    return _made(name, title, chart.properties(height=360), label, words)


def line_chart(
    name: str,
    title: str,
    points: pd.DataFrame,
    x: tuple[str, str],
    y: tuple[str, str],
    series: str,
    *,
    order: Sequence[str] = (),
    words: Sequence[str] = (),
) -> Chart:
    """Return a line a value of `series` through the means of y at each x, over a mark a row."""
    import altair as alt

    shown = _thinned(points.dropna(subset=[x[0], y[0]]))
    places = sorted(shown[x[0]].unique().tolist())
    picked = alt.selection_point(name=f"pick_{name}", fields=[series], bind="legend")
    base = alt.Chart(_data(shown)).encode(
        x=alt.X(_field(x[0], "O"), title=x[1], sort=places, axis=alt.Axis(labelAngle=0)),
        color=_colours(series, shown[series], order),
        opacity=alt.condition(picked, alt.value(1), alt.value(0.1)),
    )
    height = alt.Y(_field(y[0], "Q"), title=y[1], scale=alt.Scale(zero=False, nice=True))
    mean = alt.Y(f"mean({y[0]}):Q", title=y[1], scale=alt.Scale(zero=False, nice=True))
    lines = base.mark_line(strokeWidth=2).encode(y=mean)
    marks = (
        base.mark_point(size=50, filled=True)
        .encode(
            y=height,
            shape=_shapes(series, shown[series], order),
            tooltip=_tooltips(shown, series, x[0], y[0]),
        )
        .add_params(picked)
        .properties(name=f"marks_{name}")
    )
    label = f"{title}: {y[1]} by {x[1]} of {', '.join(dict.fromkeys(map(str, shown[series])))}"
    return _made(name, title, (lines + marks).properties(height=320), label, words)


@cache
def script_bundle() -> str:
    """Return the script that shows charts, which asks for no network: it defines `vegaEmbed`."""
    import vl_convert

    found: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return found


def _made(name: str, title: str, chart: "alt.TopLevelMixin", label: str, words: Sequence[str]) -> Chart:
    import vl_convert

    spec = chart.properties(width=WIDTH).to_dict()
    spec = {key: value for key, value in spec.items() if key not in ("config", "usermeta")} | {
        "config": CONFIG
    }
    drawn = vl_convert.vegalite_to_svg(spec)
    spec["width"] = "container"
    return Chart(
        name, title, json.dumps(spec, ensure_ascii=False), _own_ids(drawn, name), label, tuple(words)
    )


def _own_ids(svg: str, name: str) -> str:
    """Give the ids of a drawing the chart's name, for several stand on one page; its label is beside it."""
    hidden = svg.replace("<svg ", '<svg aria-hidden="true" ', 1)
    named = re.sub(r'id="(clip|gradient)', rf'id="{name}-\1', hidden)
    return re.sub(r"url\(#(clip|gradient)", rf"url(#{name}-\1", named)


def _data(table: pd.DataFrame) -> "alt.InlineData":
    """Return rows as they stand in the chart: numbers of ten digits, null for NaN."""
    import altair as alt

    rows = [{str(k): _plain(v) for k, v in row.items()} for row in table.to_dict("records")]
    return alt.InlineData(values=rows)


def _plain(value: Any) -> Any:
    if isinstance(value, (float, np.floating)):
        return None if np.isnan(value) else float(f"{value:.10g}")
    return int(value) if isinstance(value, np.integer) else value


def _thinned(table: pd.DataFrame) -> pd.DataFrame:
    return table.iloc[:: max(1, -(-len(table) // MAX_MARKS))].reset_index(drop=True)


def _field(name: str, kind: str) -> str:
    return name.replace(".", "\\.").replace("[", "\\[").replace("]", "\\]") + f":{kind}"


def _tooltips(table: pd.DataFrame, *first: str) -> "list[alt.Tooltip]":
    import altair as alt

    columns = [*first, *(str(name) for name in table.columns if name not in (*first, "spread"))]
    return [
        alt.Tooltip(_field(name, "Q"), title=name.replace("_", " "), format=".3~f")
        if pd.api.types.is_float_dtype(table[name])
        else alt.Tooltip(_field(name, "N"), title=name.replace("_", " "))
        for name in columns
    ]


def _colours(series: str, values: Iterable[Any], order: Sequence[str]) -> "alt.Color":
    import altair as alt

    places = _places(values, order)
    colours = [COLOURS[i % len(COLOURS)] for i in places.values()]
    scale = alt.Scale(domain=list(places), range=colours)
    return alt.Color(_field(series, "N"), title=None, scale=scale)


def _shapes(series: str, values: Iterable[Any], order: Sequence[str]) -> "alt.Shape":
    import altair as alt

    places = _places(values, order)
    shapes = [SHAPES[(i + i // len(SHAPES)) % len(SHAPES)] for i in places.values()]
    return alt.Shape(_field(series, "N"), title=None, scale=alt.Scale(domain=list(places), range=shapes))


def _places(values: Iterable[Any], order: Sequence[str]) -> dict[str, int]:
    """Return the place of each name that occurs, in `order` and after it by first appearance."""
    occurring = list(dict.fromkeys(map(str, values)))
    places = {name: place for place, name in enumerate(dict.fromkeys([*order, *occurring]))}
    return {name: place for name, place in places.items() if name in occurring}


def _zero() -> Any:
    import altair as alt

    return alt.Chart(_data(pd.DataFrame({"zero": [0.0]}))).mark_rule(color=SOFT, size=1).encode(x="zero:Q")


def _diagonal(points: pd.DataFrame, x: str, y: str) -> Any:
    import altair as alt

    values = np.concatenate([points[x].to_numpy(float), points[y].to_numpy(float)])
    ends = [float(values.min()), float(values.max())] if len(values) else [0.0, 1.0]
    line = pd.DataFrame({x: ends, y: ends})
    return (
        alt.Chart(_data(line))
        .mark_line(color=SOFT, strokeDash=[4, 4], size=1)
        .encode(x=_field(x, "Q"), y=_field(y, "Q"))
    )


def as_rows(table: pd.DataFrame, columns: Mapping[str, str]) -> pd.DataFrame:
    """Return the columns that a table has, under new names."""
    known = {old: new for old, new in columns.items() if old in table}
    return table[list(known)].rename(columns=known).reset_index(drop=True)
