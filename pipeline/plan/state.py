"""Which results are there, which are not, and why."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pipeline.plan.accepted import Accepted
from pipeline.plan.keys import AWAITED, Job
from pipeline.plan.points import Build
from pipeline.plan.store import Store

State = Literal["fresh", "stale", "missing", "waiting"]
JobId = tuple[str, str]
SHOWN = 3
"""Differences that a reason names; a far relative has many."""


@dataclass(frozen=True)
class Status:
    """The state of every job, why stale ones are, what damage was found, and what must run."""

    states: dict[JobId, State]
    reasons: dict[JobId, str]
    damaged: dict[JobId, str]
    to_run: list[JobId]
    waiting_for: dict[JobId, str] = field(default_factory=dict)

    def counts(self) -> dict[str, dict[str, int]]:
        """Return per stage: total, fresh, stale, missing, waiting."""
        table: dict[str, dict[str, int]] = {}
        for (stage, _), state in self.states.items():
            row = table.setdefault(stage, {"total": 0, "fresh": 0, "stale": 0, "missing": 0, "waiting": 0})
            row["total"] += 1
            row[state] += 1
        return table


def assess(build: Build, store: Store, accepted: Accepted) -> Status:
    """Judge every job of a build against the results on disk.

    A result counts as fresh when it is complete and undamaged and its inputs' contents are what it
    consumed; an absent one also counts as fresh while nothing that must run needs it.
    """
    damaged, outdated, absent = _inspect(build, store, accepted)
    awaited = {job: where for job in build.jobs if (where := waiting_for(build.jobs[job]))}
    to_run = _demanded(build, absent, {*damaged, *outdated})
    waiting = _waiting(build, to_run, awaited)
    states: dict[JobId, State] = {}
    reasons: dict[JobId, str] = {}
    running = set(to_run)
    for job in build.jobs:
        if job in waiting:
            states[job] = "waiting"
        elif job not in running:
            states[job] = "fresh"
        else:
            reason = damaged.get(job) or outdated.get(job) or explain(build.jobs[job], store)
            states[job] = "stale" if reason else "missing"
            if reason:
                reasons[job] = reason
    ordered = [job for job in build.jobs if job in running and job not in waiting]
    return Status(states, reasons, damaged, ordered, awaited)


def _inspect(
    build: Build, store: Store, accepted: Accepted
) -> tuple[dict[JobId, str], dict[JobId, str], set[JobId]]:
    damaged: dict[JobId, str] = {}
    outdated: dict[JobId, str] = {}
    absent: set[JobId] = set()
    for (stage, key), job in build.jobs.items():
        if not store.exists(stage, key):
            absent.add((stage, key))
        elif damage := store.damage(stage, key):
            damaged[stage, key] = damage
        elif change := _rebuilt_input(job, store) or _taken_back(job, store, accepted):
            outdated[stage, key] = change
    return damaged, outdated, absent


def _rebuilt_input(job: Job, store: Store) -> str | None:
    meta = store.meta(job.stage, job.key)
    assert meta is not None
    for stage, key in job.upstream:
        upstream = store.meta(stage, key)
        consumed = meta["inputs"].get(f"{stage}/{key}")
        if upstream is None or consumed is None:
            continue
        now = {name: facts["sha256"] for name, facts in upstream["outputs"].items()}
        if changed := sorted(name for name, sha in consumed.items() if now.get(name) != sha):
            return f"{stage}/{key} was rebuilt on another device with other contents ({', '.join(changed)})"
    return None


def _taken_back(job: Job, store: Store, accepted: Accepted) -> str | None:
    """Say which version a result was made with that counted as this job's once and does no longer."""
    meta = store.meta(job.stage, job.key)
    assert meta is not None
    for kind, made, now in (("code", meta["code"], job.code), ("library", meta["libraries"], job.libraries)):
        for name, version in now.items():
            classes = {accepted.oldest(job.stage, kind, name, v) for v in (version, made.get(name, ""))}
            if len(classes) > 1:
                return f"{name} {made.get(name)} no longer counts as {version} (assay accept --undo)"
    return None


def _demanded(build: Build, absent: set[JobId], unfit: set[JobId]) -> list[JobId]:
    """Return what must run: unfit results, absent ends, and the absent ones that those need in turn."""
    demanded: set[JobId] = set()
    todo = [*unfit, *(end for end in build.ends if end in absent)]
    while todo:
        job = todo.pop()
        if job not in demanded:
            demanded.add(job)
            todo += [up for up in build.jobs[job].upstream if up in absent]
    return [job for job in build.jobs if job in demanded]


def _waiting(build: Build, to_run: list[JobId], awaited: Mapping[JobId, str]) -> set[JobId]:
    waiting: set[JobId] = set()
    running = set(to_run)
    for job in build.jobs:
        if job in running and (job in awaited or any(up in waiting for up in build.jobs[job].upstream)):
            waiting.add(job)
    return waiting


def waiting_for(job: Job) -> str | None:
    """Return the file of people's ratings that a job needs and that is not there yet."""
    return next((job.paths[key] for key, checksum in job.files.items() if checksum == AWAITED), None)


def explain(job: Job, store: Store) -> str | None:
    """Say how a missing job differs from its nearest relative, None where it has none."""
    differences = [
        found
        for key in store.keys(job.stage)
        if key != job.key
        and (meta := store.meta(job.stage, key))
        and meta["slice"].get("sweep") == job.slice.get("sweep")  # another sweep's report is no relative
        and (found := differ(job, meta))
    ]
    if not differences:
        return None
    nearest = min(differences, key=lambda found: (len(found), found))
    more = [f"and {len(nearest) - SHOWN} more differences"] if len(nearest) > SHOWN else []
    return "; ".join([*nearest[:SHOWN], *more])


def differ(job: Job, meta: Mapping[str, Any]) -> list[str]:
    """List the differences between a job and a result of the same stage, worded for people."""
    ours, theirs = dict(_flat(job.slice)), dict(_flat(meta["slice"]))
    lines = [
        f"{key}: {theirs.get(key, 'absent')} -> {ours.get(key, 'absent')}"
        for key in sorted(ours.keys() | theirs.keys())
        if ours.get(key) != theirs.get(key)
    ]
    for name, what, before in (
        ("code", job.code, meta["code"]),
        ("library", job.libraries, meta["libraries"]),
        ("file", job.files, meta["files"]),
    ):
        lines += [
            f"{name} {key}: {before.get(key, 'absent')[:12]} -> {what.get(key, 'absent')[:12]}"
            for key in sorted(what.keys() | before.keys())
            if what.get(key) != before.get(key)
        ]
    keys_before = meta["upstream"]
    lines += [f"input {name}" for name, key in job.inputs.items() if keys_before.get(name) != key]
    return lines


def _flat(node: Any, prefix: str = "") -> list[tuple[str, Any]]:
    if isinstance(node, Mapping):
        pairs = [_flat(value, f"{prefix}.{key}" if prefix else str(key)) for key, value in node.items()]
        return [pair for group in pairs for pair in group]
    return [(prefix, node if not isinstance(node, list) else str(node)[:80])]
