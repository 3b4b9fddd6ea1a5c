"""Which results are there, which are not, and why."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pipeline.plan.accepted import Accepted
from pipeline.plan.keys import AWAITED, Job
from pipeline.plan.points import Build
from pipeline.plan.reasons import Relatives
from pipeline.plan.store import Store

State = Literal["fresh", "stale", "missing", "waiting"]
JobId = tuple[str, str]


@dataclass(frozen=True)
class Status:
    """The state of every job, why stale ones are, what damage was found, and what must run.

    notes: what the stages said of results that are there, and which of these count by `assay accept`.
    """

    states: dict[JobId, State]
    reasons: dict[JobId, str]
    damaged: dict[JobId, str]
    to_run: list[JobId]
    waiting_for: dict[JobId, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

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
    found = _inspect(build, store, accepted)
    awaited = {job: where for job in build.jobs if (where := waiting_for(build.jobs[job]))}
    to_run = _demanded(build, found.absent, {*found.damaged, *found.outdated})
    waiting = _waiting(build, to_run, awaited)
    states: dict[JobId, State] = dict.fromkeys(build.jobs, "fresh")
    states |= dict.fromkeys(waiting, "waiting")
    ordered = [job for job in to_run if job not in waiting]
    reasons: dict[JobId, str] = {}
    relatives = Relatives(store)
    for job in ordered:
        reason = found.damaged.get(job) or found.outdated.get(job) or relatives.explain(build.jobs[job])
        states[job] = "stale" if reason else "missing"
        if reason:
            reasons[job] = reason
    return Status(states, reasons, found.damaged, ordered, awaited, list(dict.fromkeys(found.notes)))


@dataclass(frozen=True)
class _Found:
    """What is wrong with the results of a build, and what their stages noted."""

    damaged: dict[JobId, str] = field(default_factory=dict)
    outdated: dict[JobId, str] = field(default_factory=dict)
    absent: set[JobId] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)


def _inspect(build: Build, store: Store, accepted: Accepted) -> _Found:
    """Look at each result once, upstream first; of its meta only the checksums of its files are kept."""
    found = _Found()
    present = {stage: store.present(stage) for stage in dict.fromkeys(stage for stage, _ in build.jobs)}
    outputs: dict[JobId, dict[str, str]] = {}
    for job_id, job in build.jobs.items():
        if job.key not in present[job.stage]:
            found.absent.add(job_id)
            continue
        meta, damage = store.examine(job.stage, job.key)
        if meta:
            outputs[job_id] = {name: facts["sha256"] for name, facts in meta["outputs"].items()}
            found.notes.extend(_notes(job, meta))
        if damage or meta is None:
            found.damaged[job_id] = str(damage)
        elif change := _rebuilt_input(job, meta, outputs) or _taken_back(job, meta, accepted):
            found.outdated[job_id] = change
    return found


def _notes(job: Job, meta: Mapping[str, Any]) -> list[str]:
    notes = [f"{job.stage}: {line}" for line in meta["notes"]]
    for made, now in ((meta["code"], job.code), (meta["libraries"], job.libraries)):
        if made != now:
            notes += [
                f"{job.stage}: {name} {made.get(name)} counts as {now[name]} by assay accept"
                for name in now
                if made.get(name) != now[name]
            ]
    return notes


def _rebuilt_input(
    job: Job, meta: Mapping[str, Any], outputs: Mapping[JobId, Mapping[str, str]]
) -> str | None:
    for stage, key in job.upstream:
        now = outputs.get((stage, key))
        consumed = meta["inputs"].get(f"{stage}/{key}")
        if now is None or consumed is None or consumed == now:
            continue
        if changed := sorted(name for name, sha in consumed.items() if now.get(name) != sha):
            return f"{stage}/{key} was rebuilt on another device with other contents ({', '.join(changed)})"
    return None


def _taken_back(job: Job, meta: Mapping[str, Any], accepted: Accepted) -> str | None:
    """Say which version a result was made with that counted as this job's once and does no longer."""
    for kind, made, now in (("code", meta["code"], job.code), ("library", meta["libraries"], job.libraries)):
        for name, version in now.items() if made != now else ():
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
