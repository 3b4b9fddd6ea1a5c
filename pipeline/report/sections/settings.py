"""The settings of a sweep's points: what all share, and what each has of its own."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from pipeline.report.report_inputs import Point, ReportInputs
from pipeline.report.sections.section import Section, SetPoint, Setting, Settings
from pipeline.report.sections.tables import data_table
from pipeline.report.sections.wording import counted

NOWHERE = ""


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
        keys=[_last_key(point) for point in points],
        words=(
            "What is the same for all points has no column; from: the last result that is the point's own.",
        ),
    )
    shared = tuple(Setting(key, value, False) for key, value in _of_all(flat).items())
    own = tuple(_set_point(point, values, varying) for point, values in zip(points, flat, strict=True))
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
    frame = pd.DataFrame(rows).fillna(NOWHERE)
    differ = [str(name) for name in frame.columns if len(set(frame[name])) > 1]
    frame = frame[differ or list(frame.columns)]
    told = {key: [values[key] for values in flat] for key in varying if all(key in v for v in flat)}
    known = [tuple(map(str, frame[name])) for name in frame.columns]
    new = {key: values for key, values in told.items() if tuple(values) not in known}
    return frame.assign(**new)


def _set_point(point: Point, values: Mapping[str, str], varying: Sequence[str]) -> SetPoint:
    own = tuple(Setting(key, values[key], True) for key in varying if key in values)
    return SetPoint(point.title or "the point", point.overrides, tuple(point.keys.items()), own)


def _of_all(flat: Sequence[Mapping[str, str]]) -> dict[str, str]:
    first, *others = flat
    return {key: value for key, value in first.items() if all(o.get(key) == value for o in others)}


def _last_key(point: Point) -> tuple[str, ...]:
    own = [key for stage, key in point.keys.items() if "comparison" not in stage and stage != "tracking"]
    return tuple(own[-1:])


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in settings.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value if isinstance(value, str) else json.dumps(value, default=str)
