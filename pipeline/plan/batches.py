"""Group what must run into batches, and write the plan that jobs read.

A batch is a Snakemake job: some keys of one stage. It is never part of a key and takes only
results that are not there. A plan is a small file that lists the batches, and a file a batch with its jobs:
a job's process reads its own.
"""

import hashlib
import json
import secrets
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

from pipeline.files import canonical, read_json, replacing
from pipeline.plan.keys import Job
from pipeline.plan.points import Build
from pipeline.plan.project import Project
from pipeline.plan.stages import STAGES, Stage
from pipeline.plan.state import JobId

MAX_BATCHES = 256
"""Of a stage, where its batches may take any number of keys: Snakemake wants milliseconds for each."""
PART = ("stage", "slice", "code", "libraries", "files", "paths", "patterns", "speed")
"""What jobs of a stage may share: all but the key and the inputs."""


@dataclass(frozen=True)
class Batch:
    """Some jobs of one stage that run together, after the batches that make their inputs."""

    id: str
    stage: str
    jobs: Sequence[Job]
    after: tuple[str, ...]
    threads: int = 1


@dataclass(frozen=True)
class Plan:
    """What one run does, as its file says it."""

    path: Path
    sweep: str
    batches: dict[str, Batch]

    @property
    def folder(self) -> Path:
        """The folder of the markers: `<stage>/<batch>.done`."""
        return self.path.with_suffix("")

    def marker(self, batch: Batch) -> str:
        """Return the file that says a batch has ended."""
        return str(self.folder / batch.stage / f"{batch.id}.done")

    def progress(self, batch: Batch) -> Path:
        """Return the file that says how far a batch at work is."""
        return self.folder / batch.stage / f"{batch.id}.progress"

    @property
    def markers(self) -> list[str]:
        """Return all markers."""
        return [self.marker(batch) for batch in self.batches.values()]

    def threads(self, batch_id: str) -> int:
        """Return the cores that a batch keeps busy."""
        return self.batches[batch_id].threads

    def inputs(self, batch_id: str) -> list[str]:
        """Return the markers that a batch waits for."""
        return [self.marker(self.batches[up]) for up in self.batches[batch_id].after]


def uses_process(stage: str) -> bool:
    """Say whether a stage's batches run in a process of their own."""
    return any(row.process for row in STAGES[stage])


def batch_up(jobs: Mapping[JobId, Job], to_run: list[JobId]) -> list[Batch]:
    """Split what must run into batches: one pass for jobs that may share it, else up to `batch` keys.

    Of very many keys a batch takes more, so that Snakemake's graph stays small.
    """
    groups: dict[tuple[str, str], list[Job]] = {}
    for job_id in to_run:
        job = jobs[job_id]
        groups.setdefault((job.stage, _pass(job)), []).append(job)
    batches: list[Batch] = []
    home: dict[JobId, str] = {}
    order = list(STAGES)
    totals = Counter(stage for stage, _ in to_run)
    for (stage, _), members in sorted(groups.items(), key=lambda group: order.index(group[0][0])):
        size = max(STAGES[stage][0].batch, ceil(totals[stage] / MAX_BATCHES))
        for start in range(0, len(members), size):
            chunk = members[start : start + size]
            after = dict.fromkeys(home[up] for job in chunk for up in job.upstream if up in home)
            batch = Batch(_name(chunk), stage, tuple(chunk), tuple(after), max(map(_threads, chunk)))
            home |= {(stage, job.key): batch.id for job in chunk}
            batches.append(batch)
    return batches


def _threads(job: Job) -> int:
    """Return the cores that a job keeps busy: torch's threads where it computes with torch, else 1."""
    return int(job.slice.get("numerics", {}).get("threads", job.slice.get("numerics.threads", 1)))


def _pass(job: Job) -> str:
    row = row_of(job)
    if not row.together and not row.shares:
        return ""
    same = {key: value for key, value in job.slice.items() if key not in row.together}
    inputs = {stage: keys for stage, keys in job.inputs.items() if stage not in row.shares}
    return canonical([same, inputs, job.paths])


def row_of(job: Job) -> Stage:
    """Return the first row of a job's stage: how jobs share a pass is the same in all of them."""
    return STAGES[job.stage][0]


def _name(jobs: list[Job]) -> str:
    return "b" + hashlib.sha256(" ".join(job.key for job in jobs).encode()).hexdigest()[:12]


def write_plan(project: Project, build: Build, to_run: list[JobId]) -> Plan:
    """Write the plan of one run; its name is made of what it runs, and is no other run's."""
    batches = batch_up(build.jobs, to_run)
    name = hashlib.sha256(" ".join(batch.id for batch in batches).encode()).hexdigest()[:12]
    plan = Plan(
        project.plans / f"{build.name}-{name}-{secrets.token_hex(3)}.json",
        build.name,
        {batch.id: batch for batch in batches},
    )
    for batch in batches:
        write_compact(_jobs_file(plan, batch.stage, batch.id), _record(batch.jobs))
    rows = [[batch.id, batch.stage, batch.after, batch.threads] for batch in batches]
    write_compact(plan.path, {"sweep": plan.sweep, "batches": rows})
    return plan


def read_plan(path: Path) -> Plan:
    """Read a plan; the jobs of a batch are read when they are first asked for."""
    record = read_json(path)
    plan = Plan(path, record["sweep"], {})
    for id_, stage, after, threads in record["batches"]:
        jobs = WrittenJobs(_jobs_file(plan, stage, id_))
        plan.batches[id_] = Batch(id_, stage, jobs, tuple(after), threads)
    return plan


@dataclass(frozen=True)
class WrittenJobs(Sequence[Job]):
    """The jobs of a batch as its file says them; each look reads it, and nothing of it is kept."""

    path: Path

    def __iter__(self) -> Iterator[Job]:
        record = read_json(self.path)
        for key, inputs, part in record["jobs"]:
            yield Job(key=key, inputs=inputs, **record["parts"][part])

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __getitem__(self, index: Any) -> Any:
        return list(iter(self))[index]


def _jobs_file(plan: Plan, stage: str, batch_id: str) -> Path:
    return plan.folder / stage / f"{batch_id}.json"


def _record(jobs: Sequence[Job]) -> dict[str, Any]:
    """Write jobs as parts, each once, and for each job its key, its inputs and the place of its part."""
    places: dict[str, int] = {}
    parts: list[dict[str, Any]] = []
    rows: list[tuple[str, Any, int]] = []
    for job in jobs:
        part = {name: getattr(job, name) for name in PART}
        place = places.setdefault(_compact(part), len(parts))
        if place == len(parts):
            parts.append(part)
        rows.append((job.key, job.inputs, place))
    return {"parts": parts, "jobs": rows}


def write_compact(path: Path, record: Any) -> None:
    """Write `record` as JSON without spaces, atomically; the order of keys stays."""
    with replacing(path) as temporary:
        temporary.write_text(_compact(record), encoding="utf-8")


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
