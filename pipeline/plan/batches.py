"""Group what must run into batches, and write the plan file that jobs read.

A batch is a Snakemake job: some keys of one stage. It is never part of a key and takes only
results that are not there.
"""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pipeline.files import canonical, read_json, write_json
from pipeline.plan.keys import Job
from pipeline.plan.points import Build
from pipeline.plan.project import Project
from pipeline.plan.stages import STAGES, Stage
from pipeline.plan.state import JobId


@dataclass(frozen=True)
class Batch:
    """Some jobs of one stage that run together, after the batches that make their inputs."""

    id: str
    stage: str
    jobs: tuple[Job, ...]
    after: tuple[str, ...]


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
        """Return the cores that a batch keeps busy: torch's threads where it computes with torch, else 1."""
        slice_ = self.batches[batch_id].jobs[0].slice
        return int(slice_.get("numerics", {}).get("threads", slice_.get("numerics.threads", 1)))

    def inputs(self, batch_id: str) -> list[str]:
        """Return the markers that a batch waits for."""
        return [self.marker(self.batches[up]) for up in self.batches[batch_id].after]


def uses_process(stage: str) -> bool:
    """Say whether a stage's batches run in a process of their own."""
    return any(row.process for row in STAGES[stage])


def batch_up(jobs: Mapping[JobId, Job], to_run: list[JobId]) -> list[Batch]:
    """Split what must run into batches: one pass for jobs that may share it, else up to `batch` keys."""
    groups: dict[tuple[str, str], list[Job]] = {}
    for job_id in to_run:
        job = jobs[job_id]
        groups.setdefault((job.stage, _pass(job)), []).append(job)
    batches: list[Batch] = []
    home: dict[JobId, str] = {}
    order = list(STAGES)
    for (stage, _), members in sorted(groups.items(), key=lambda group: order.index(group[0][0])):
        size = STAGES[stage][0].batch
        for start in range(0, len(members), size):
            chunk = members[start : start + size]
            after = dict.fromkeys(home[up] for job in chunk for up in job.upstream if up in home)
            batch = Batch(_name(chunk), stage, tuple(chunk), tuple(after))
            home |= {(stage, job.key): batch.id for job in chunk}
            batches.append(batch)
    return batches


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
    """Write the plan of one run; its name is made of what it runs and of the process that plans."""
    batches = batch_up(build.jobs, to_run)
    name = hashlib.sha256(" ".join(batch.id for batch in batches).encode()).hexdigest()[:12]
    path = project.plans / f"{build.name}-{name}-{os.getpid()}.json"
    write_json(path, {"sweep": build.name, "batches": [asdict(batch) for batch in batches]})
    return Plan(path, build.name, {batch.id: batch for batch in batches})


def read_plan(path: Path) -> Plan:
    """Read a plan file."""
    record = read_json(path)
    return Plan(path, record["sweep"], {row["id"]: _batch(row) for row in record["batches"]})


def _batch(row: Mapping[str, Any]) -> Batch:
    jobs = tuple(Job(**job) for job in row["jobs"])
    return Batch(row["id"], row["stage"], jobs, tuple(row["after"]))
