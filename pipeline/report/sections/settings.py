"""The settings of a sweep's points: what all share, and what each has of its own."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from pipeline.report.report_inputs import Point, ReportInputs
from pipeline.report.sections.section import Section, SetPoint, Setting, Settings
from pipeline.report.sections.tables import data_table
from pipeline.report.sections.wording import counted

NOWHERE, NONE = "", "None"
"""What a point does not have: as shown, and as a factor says it."""


def settings_section(inputs: ReportInputs) -> Section:
    """Return the table of points with what varies among them, and the settings and keys of each, folded."""
    points = inputs.planned
    if not points:
        return Section("points", "Points and settings", ("The report was given no point of the sweep.",))
    flat = [dict(_flat(point.settings)) for point in points]
    varying = varying_keys(flat)
    table = data_table(
        "points",
        "points",
        points_table(points, flat, varying),
        inputs.key,
        keys=own_keys(points),
        words=(
            "What is the same for all points has no column; from: the result that tells most of them apart.",
        ),
    )
    shared = tuple(Setting(key, value, False) for key, value in _of_all(flat).items())
    told = zip(points, titles(points), flat, strict=True)
    own = tuple(_set_point(point, title, values, varying) for point, title, values in told)
    words = f"{counted(len(points), 'point')}. Settings that are not the same for all points are marked."
    return Section("points", "Points and settings", (words,), (table, Settings(shared, own)))


def varying_keys(flat: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the dotted keys that not all points have with one value, in the order of first appearance."""
    keys = list(dict.fromkeys(key for values in flat for key in values))
    return [key for key in keys if len({values.get(key) for values in flat}) > 1]


def points_table(
    points: Sequence[Point], flat: Sequence[Mapping[str, str]], varying: Sequence[str]
) -> pd.DataFrame:
    """Return a row a point: factors and explainer that vary (all if none does), and settings of all."""
    rows = [{**p.factors, **({"explainer": p.method} if p.method else {})} for p in points]
    frame = pd.DataFrame(rows).fillna(NOWHERE).replace(NONE, NOWHERE)
    differ = [str(name) for name in frame.columns if len(set(frame[name])) > 1]
    frame = frame[differ or list(frame.columns)]
    told = {key: [values[key] for values in flat] for key in varying if all(key in v for v in flat)}
    known = [tuple(map(str, frame[name])) for name in frame.columns]
    new = {key: values for key, values in told.items() if tuple(values) not in known}
    return frame.assign(**new)


def _set_point(point: Point, title: str, values: Mapping[str, str], varying: Sequence[str]) -> SetPoint:
    own = tuple(Setting(key, values[key], True) for key in varying if key in values)
    return SetPoint(title, point.overrides, tuple(point.keys.items()), own)


def _of_all(flat: Sequence[Mapping[str, str]]) -> dict[str, str]:
    first, *others = flat
    return {key: value for key, value in first.items() if all(o.get(key) == value for o in others)}


def own_keys(points: Sequence[Point]) -> list[tuple[str, ...]]:
    """Return each point's key in the stage that tells most points apart, the last of equal ones."""
    stages = list(dict.fromkeys(stage for point in points for stage in point.keys))
    if not stages:
        return [() for _ in points]
    n_keys = {stage: len({point.keys.get(stage) for point in points}) for stage in stages}
    best = max(reversed(stages), key=lambda stage: n_keys[stage])
    return [(point.keys[best],) if best in point.keys else () for point in points]


def titles(points: Sequence[Point]) -> list[str]:
    """Return each point in words: the factors that are not the same for all, numbers with their name."""
    names = list(dict.fromkeys(name for point in points for name in point.factors))
    differ = [name for name in names if len({point.factors.get(name) for point in points}) > 1]
    shown = differ or ([] if any(point.method for point in points) else names)
    return [_title(point, shown) for point in points]


def _title(point: Point, shown: Sequence[str]) -> str:
    values = {name: point.factors.get(name, NONE) for name in shown}
    words = [_named(name, value) for name, value in values.items() if value not in (NONE, NOWHERE)]
    return ", ".join(filter(None, [*words, point.method])) or "the point"


def _named(name: str, value: str) -> str:
    try:
        float(value)
    except ValueError:
        return value
    return f"{name} {value}"


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in settings.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value if isinstance(value, str) else json.dumps(value, default=str)
