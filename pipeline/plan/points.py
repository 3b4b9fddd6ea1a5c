"""From points to the union of jobs: the one function behind every way in."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.errors import AssayError
from pipeline.files import canonical
from pipeline.plan.accepted import Accepted
from pipeline.plan.compose import Composer
from pipeline.plan.keys import Job, Part, Slicer
from pipeline.plan.memory import Memory
from pipeline.plan.project import Project
from pipeline.plan.stages import (
    ASKING,
    ENDPOINT,
    SWEEP_ENDS,
    ends_of,
    groups_of,
    lookup,
    stage_for,
    stages_of,
)
from pipeline.plan.sweep import Point, Sweep
from pipeline.plan.validation import Validated, Validator

Choices = Mapping[str, str]

ALWAYS = {
    "crowd": ("dataset", "model", "layer"),
    "sae": ("dataset", "model", "layer"),
    "vlm": ("vlm", "questions"),
}
"""Factors of every point of a track, whether they vary or not."""
EXPLAINER = {"crowd": "explainer", "sae": "explainer", "vlm": "attribution"}
"""The group of a track that says which method explains."""
UNTOLD = (*ASKING, *ENDPOINT)
"""What is told to nobody: no result depends on it."""
NOT_FACTORS = (
    "explainer",
    "explainer_scorer",
    "attribution",
    "sii",
    "tracking",
    "stats",
    "loader",
    "device",
)
COLUMNS = {"unit": "unit_kind"}
"""Factors whose key is a column of every score already: a unit's number."""
WHOSE = ("unit_kind", "unit", "sae")
"""Factors that say whose activations are judged, which a frozen study has decided."""
TELLS_SETTINGS = ("report", "tracking")
"""Sweep-scope stages that are told each point's config."""
ONE_A_SWEEP = ("track", "stats", "tracking")
TABLE_KEYS = ("explainer.path", "explainer.method")
"""What only says where texts come from: the method's name tells such points apart."""


@dataclass(frozen=True, slots=True)
class PlannedPoint:
    """One composed point: what set it apart, its config, and its key for every stage.

    `variant` tells apart points of one explanation method with other settings, such as `top=50`.
    """

    overrides: Point
    factors: dict[str, str]
    variant: str
    choices: dict[str, str]
    values: dict[str, Any]
    keys: dict[str, str]


@dataclass(frozen=True)
class Build:
    """A sweep's points and the union of their jobs, upstream first."""

    name: str
    points: list[PlannedPoint]
    jobs: dict[tuple[str, str], Job]
    ends: list[tuple[str, str]]
    hashed_bytes: int = 0
    sweep_keys: dict[str, str] = field(default_factory=dict)


def build_points(project: Project, sweep: Sweep, memory: Memory, accepted: Accepted) -> Build:
    """Compose and validate every point before any is built; return points and jobs.

    Raises AssayError that lists each distinct mistake once.
    """
    chosen, valid = _validated(project, sweep, memory)
    slicer = Slicer(project.root, memory, accepted)
    jobs: dict[tuple[str, str], Job] = {}
    keys = [_add_point(slicer, jobs, point) for point in valid]
    factors = _factors(sweep.points, chosen, valid)
    variants = _variants(sweep.points, chosen, valid)
    points = [
        PlannedPoint(overrides, row, variant, choices, v.values, k)
        for overrides, row, variant, choices, v, k in zip(
            sweep.points, factors, variants, chosen, valid, keys, strict=True
        )
    ]
    for group in ONE_A_SWEEP:
        _require_one(group, points)
    unique: dict[Hashable, int] = {}
    for i, p in enumerate(points):
        unique.setdefault((p.variant, frozenset(p.factors.items()), frozenset(p.keys.items())), i)
    points, valid = [points[i] for i in unique.values()], [valid[i] for i in unique.values()]
    _require_own_draws(points)
    sweep_keys = _add_sweep(slicer, jobs, sweep.name, points, valid)
    ends = dict.fromkeys((end, p.keys[end]) for p in points for end in ends_of(p.values))
    return Build(sweep.name, points, jobs, [*ends, *sweep_keys.items()], memory.hashed_bytes, sweep_keys)


def _validated(project: Project, sweep: Sweep, memory: Memory) -> tuple[list[Choices], list[Validated]]:
    composer, validator = Composer(project.conf, memory.text), Validator(project.root)
    chosen: list[Choices] = []
    valid: list[Validated] = []
    problems: dict[str, None] = {}
    for overrides in sweep.points:
        try:
            composed = composer.compose(overrides)
            valid.append(validator.validate(composed.config, composed.where))
            chosen.append(composed.choices)
        except AssayError as error:
            problems |= dict.fromkeys(str(error).splitlines())
    if problems:
        raise AssayError("\n".join(problems))
    return chosen, valid


def _add_point(slicer: Slicer, jobs: dict[tuple[str, str], Job], point: Validated) -> dict[str, str]:
    keys: dict[str, str] = {}
    for name, stage in stages_of(point.values).items():
        job = slicer.job(name, stage, point, keys)
        keys[name] = job.key
        jobs.setdefault((name, job.key), job)
    return keys


def _add_sweep(
    slicer: Slicer,
    jobs: dict[tuple[str, str], Job],
    name: str,
    points: Sequence[PlannedPoint],
    valid: Sequence[Validated],
) -> dict[str, str]:
    config, files = valid[0].values, _Checksums(jobs)
    keys: dict[str, str] = {}
    for stage_name in SWEEP_ENDS[config["track"]]:
        stage = stage_for(stage_name, config)
        if stage_name == "tracking" and config["tracking"]["name"] == "none":
            continue
        slice_: dict[str, Any] = {group: config[group] for group in stage.reads}
        told = [_told(point, files) for point in points] if stage_name in TELLS_SETTINGS else []
        code = slicer.code(stage_name, stage, config, slice_)
        slice_ |= _point_rows(points, stage.after, told)
        if stage_name in TELLS_SETTINGS:
            slice_["sweep"] = name
        inputs: dict[str, str | list[str]] = {
            up: keys[up] if up in keys else sorted({p.keys[up] for p in points if up in p.keys})
            for up in stage.after
        }
        part = Part(slice_, code, slicer.files(stage_name, stage))
        job = slicer.finish(stage_name, stage, part, inputs, {})
        keys[stage_name] = job.key
        jobs[stage_name, job.key] = job
    return keys


def _require_one(group: str, points: Sequence[PlannedPoint]) -> None:
    values = {id(p.values[group]): p.values[group] for p in points}
    if len({canonical(value) for value in values.values()}) > 1:
        raise AssayError(
            f"{group} varies within the sweep; it is one setting for the whole sweep, so give it once"
        )


def _require_own_draws(points: Sequence[PlannedPoint]) -> None:
    """Refuse points that read the same draws of a frozen study and are told apart by how texts were made."""
    seen: dict[str, tuple[PlannedPoint, str]] = {}
    for point in points:
        if "study" in point.values["crowd"] and "sampling" in point.keys:
            named = {key: value for key, value in point.factors.items() if key.split(".")[0] in WHOSE}
            told = canonical([point.variant, named])
            first, other = seen.setdefault(point.keys["sampling"], (point, told))
            if other != told:
                raise AssayError(
                    f"the points {' '.join(first.overrides)} and {' '.join(point.overrides)} read the same "
                    f"ratings of study {point.values['crowd']['study']}: a study keeps one text a unit and "
                    "method, so run what it was frozen from"
                )


def _point_rows(
    points: Sequence[PlannedPoint], after: Sequence[str], told: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return a row a point, sorted; of what is told of each, what all have in common stands there once."""
    common = {name: _common([each[name] for each in told]) for name in told[0]} if told else {}
    rows = []
    for i, point in enumerate(points):
        keys = {stage: key for stage, key in point.keys.items() if stage in after}
        row: dict[str, Any] = {"factors": point.factors, "variant": point.variant, "keys": keys}
        if "attributions" in point.keys:
            row["explainer"] = point.choices["attribution"]
        own = {
            name: {key: value for key, value in told[i][name].items() if key not in shared}
            for name, shared in common.items()
        }
        rows.append((canonical(row), row | own))
    return {"points": [row for _, row in sorted(rows, key=lambda pair: pair[0])], **common}


def _common(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what is the same in all rows."""
    common = dict(rows[0])
    for row in rows:
        for key in [
            key
            for key, value in common.items()
            if key not in row or (row[key] is not value and row[key] != value)
        ]:
            del common[key]
    return common


def _is(one: Any, other: Any) -> bool:
    return one is other or one == other  # nearly always one object, which a dict does not look at first


def _told(point: PlannedPoint, checksums: "_Checksums") -> dict[str, Any]:
    """Return a point's settings, choices and results."""
    groups = groups_of(point.values) - {"loader", "device"} | {"track"}
    settings = {group: checksums.of(point, group) for group in point.values if group in groups}
    choices = {group: choice for group, choice in point.choices.items() if group in groups}
    return {"settings": settings, "choices": choices, "results": point.keys}


class _Checksums:
    """Puts content checksums where groups have paths, once for all points that share group and files."""

    def __init__(self, jobs: Mapping[tuple[str, str], Job]) -> None:
        self._jobs = jobs
        self._paths: dict[int, list[str]] = {}
        self._made: dict[tuple[Any, ...], Any] = {}

    def of(self, point: PlannedPoint, group: str) -> Any:
        """Return a group's values as they are told."""
        value = point.values[group]
        if not isinstance(value, dict):
            return _checksummed(value, {}, group)
        if id(value) not in self._paths:
            self._paths[id(value)] = list(_path_keys(value, group))
        paths = self._paths[id(value)]
        files = self._files(point) if paths else {}
        memo = (group, id(value), *(files.get(key, "") for key in paths))
        if memo not in self._made:
            self._made[memo] = _checksummed(value, files, group)
        return self._made[memo]

    def _files(self, point: PlannedPoint) -> dict[str, str]:
        return {
            name: sha for stage, k in point.keys.items() for name, sha in self._jobs[stage, k].files.items()
        }


def _path_keys(value: Any, key: str) -> Iterator[str]:
    if isinstance(value, Path):
        yield key
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from _path_keys(item, f"{key}.{name}")


def _checksummed(value: Any, files: Mapping[str, str], key: str) -> Any:
    """Put content checksums where a config has paths; leave out how people or models are asked."""
    if isinstance(value, Path):
        return f"sha256 {files.get(key, '')[:12]}"
    if isinstance(value, Mapping):
        dotted = {name: f"{key}.{name}" for name in value}
        return {k: _checksummed(value[k], files, name) for k, name in dotted.items() if name not in UNTOLD}
    return value


def _swept_keys(overrides: Sequence[Point]) -> list[str]:
    return [
        *dict.fromkeys(
            text.split("=")[0].lstrip("+") for point in overrides for text in point if text[0] != "~"
        )
    ]


def _factors(
    overrides: Sequence[Point], chosen: Sequence[Choices], valid: Sequence[Validated]
) -> list[dict[str, str]]:
    """Return for each point the value of every key that varies, and of those that its track always tells."""
    always = ALWAYS[valid[0].values["track"]]
    swept = [k for k in _swept_keys(overrides) if k.split(".")[0] not in NOT_FACTORS]
    keys = [*always, *(k for k in swept if k not in always)]
    rows = [{key: _value(key, c, v) for key in keys} for c, v in zip(chosen, valid, strict=True)]
    varying = {key for key in keys if key in always or len({row[key] for row in rows}) > 1}
    return [{COLUMNS.get(key, key): value for key, value in row.items() if key in varying} for row in rows]


def _variants(overrides: Sequence[Point], chosen: Sequence[Choices], valid: Sequence[Validated]) -> list[str]:
    """Return for each point the explainer settings that vary among points of the same explainer.

    The explainer's scorer counts for those that see images with one.
    """
    group = EXPLAINER[valid[0].values["track"]]
    swept = [k for k in _swept_keys(overrides) if k.startswith((f"{group}.", f"{group}_scorer"))]
    keys = [k for k in swept if k not in TABLE_KEYS]
    values = []
    for c, v in zip(chosen, valid, strict=True):
        read = groups_of(v.values)
        values.append({key: _value(key, c, v) if key.split(".")[0] in read else "" for key in keys})
    names = [choices[group] for choices in chosen]
    varying = {
        (name, key)
        for name in set(names)
        for key in keys
        if len({row[key] for row, other in zip(values, names, strict=True) if other == name}) > 1
    }
    return [
        ", ".join(f"{key.removeprefix(f'{group}.')}={row[key]}" for key in keys if (name, key) in varying)
        for row, name in zip(values, names, strict=True)
    ]


def _value(key: str, choices: Choices, valid: Validated) -> str:
    if key in choices:
        return choices[key]
    value = lookup(valid.values, key)
    return value.name if isinstance(value, Path) else str(value)
