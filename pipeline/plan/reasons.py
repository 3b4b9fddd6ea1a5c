"""Why a result is not there: what sets its job apart from the nearest result of its stage."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pipeline.files import canonical
from pipeline.plan.keys import Job
from pipeline.plan.store import Store

SHOWN = 3
"""Differences that a reason names; a far relative has many."""
NEAR = 64
"""Results of a stage up to which a job is compared with all of them. Of more it is compared with so many at
most: of the same inputs, of the same settings and code, and of the others, evenly."""


@dataclass(frozen=True, slots=True)
class Made:
    """What a result was made of; equal parts are one object, `sort` names the part."""

    sort: str
    part: Mapping[str, Mapping[str, Any]]
    upstream: Mapping[str, Any]


@dataclass
class _Stage:
    made: list[Made] = field(default_factory=list)
    same_inputs: dict[str, list[Made]] = field(default_factory=dict)
    same_part: dict[str, list[Made]] = field(default_factory=dict)


class Relatives:
    """The results of each stage, read when one of its jobs is first explained."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._parts: dict[str, Mapping[str, Mapping[str, Any]]] = {}
        self._stages: dict[str, _Stage] = {}
        self._sorts: dict[tuple[int, ...], str] = {}
        self._lines: dict[tuple[str, str], list[str]] = {}

    def explain(self, job: Job) -> str | None:
        """Say how a missing job differs from its nearest relative, None where it has none."""
        found = [lines for made in self._near(job) if (lines := self._differ(job, made))]
        if not found:
            return None
        nearest = min(found, key=lambda lines: (len(lines), lines))
        more = [f"and {len(nearest) - SHOWN} more differences"] if len(nearest) > SHOWN else []
        return "; ".join([*nearest[:SHOWN], *more])

    def _near(self, job: Job) -> Iterable[Made]:
        stage = self._stage(job)
        if len(stage.made) <= NEAR:
            return stage.made
        alike = stage.same_inputs.get(_inputs(job.inputs), [])[:NEAR]
        others = alike or stage.made[:: len(stage.made) // NEAR]
        return [*stage.same_part.get(self._sort(job), [])[:NEAR], *others]

    def _stage(self, job: Job) -> _Stage:
        sweep = job.slice.get("sweep")  # another sweep's report is no relative
        name = f"{job.stage} {sweep}"
        if name not in self._stages:
            stage = self._stages[name] = _Stage()
            for key in self._store.keys(job.stage):
                meta, _ = self._store.examine(job.stage, key) if key != job.key else (None, None)
                if meta and meta["slice"].get("sweep") == sweep:
                    made = self._made(meta)
                    stage.made.append(made)
                    stage.same_inputs.setdefault(_inputs(made.upstream), []).append(made)
                    stage.same_part.setdefault(made.sort, []).append(made)
        return self._stages[name]

    def _made(self, meta: Mapping[str, Any]) -> Made:
        part = {name: meta[name] for name in ("slice", "code", "libraries", "files")}
        sort = _sort(part)
        return Made(sort, self._parts.setdefault(sort, part), meta["upstream"])

    def _sort(self, job: Job) -> str:
        """Name a job's part; equal parts of a build are one object, so their identity tells."""
        memo = (id(job.slice), id(job.code), id(job.libraries), id(job.files))
        if memo not in self._sorts:
            self._sorts[memo] = _sort(_part(job))
        return self._sorts[memo]

    def _differ(self, job: Job, made: Made) -> list[str]:
        """List the differences between a job and a result of the same stage, worded for people."""
        pair = (self._sort(job), made.sort)
        if pair not in self._lines:
            self._lines[pair] = differ(_part(job), made.part)
        changed = [f"input {name}" for name, key in job.inputs.items() if made.upstream.get(name) != key]
        return [*self._lines[pair], *changed]


def _part(job: Job) -> dict[str, Mapping[str, Any]]:
    return {"slice": job.slice, "code": job.code, "libraries": job.libraries, "files": job.files}


def _sort(part: Mapping[str, Any]) -> str:
    return hashlib.sha256(canonical(part).encode()).hexdigest()


def _inputs(inputs: Mapping[str, Any]) -> str:
    text = canonical(inputs)
    return text if len(text) < 1000 else hashlib.sha256(text.encode()).hexdigest()


def differ(ours: Mapping[str, Mapping[str, Any]], theirs: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """List how slice, code, libraries and files differ, worded for people."""
    now, before = dict(_flat(ours["slice"])), dict(_flat(theirs["slice"]))
    lines = [
        f"{key}: {before.get(key, 'absent')} -> {now.get(key, 'absent')}"
        for key in sorted(now.keys() | before.keys())
        if now.get(key) != before.get(key)
    ]
    for name, what in (("code", "code"), ("library", "libraries"), ("file", "files")):
        new, old = ours[what], theirs[what]
        lines += [
            f"{name} {key}: {old.get(key, 'absent')[:12]} -> {new.get(key, 'absent')[:12]}"
            for key in sorted(new.keys() | old.keys())
            if new.get(key) != old.get(key)
        ]
    return lines


def _flat(node: Any, prefix: str = "") -> list[tuple[str, Any]]:
    if isinstance(node, Mapping):
        pairs = [_flat(value, f"{prefix}.{key}" if prefix else str(key)) for key, value in node.items()]
        return [pair for group in pairs for pair in group]
    return [(prefix, node if not isinstance(node, list) else str(node[:40])[:80])]
