"""What a batch asks of a cluster: memory, time, a GPU; and which batches share a job there.

`COSTS` says what one job of each stage takes before anything was measured. Where the store holds results of
the same kind (the same data, the same models, the same methods), what those took counts instead. Each
further attempt asks for twice as much of both.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from math import ceil
from typing import Any

from pipeline.files import canonical, read_json, write_json
from pipeline.plan.batches import Batch, Plan
from pipeline.plan.keys import Inputs, Job
from pipeline.plan.points import Build
from pipeline.plan.stages import STAGES
from pipeline.plan.state import JobId
from pipeline.plan.store import Store

START_SECONDS = 300
"""Seconds beside a batch's work: Python, libraries and weights may come from a slow network drive."""
START_MEMORY = 500
"""MB beside the measured peak: the processes of Snakemake and of the scheduler that stand around a job."""
MEMORY_MARGIN = 1.5
TIME_MARGIN = 2.0
STEP = 100
"""MB: requests are rounded up to it."""
LOOKED_AT = 200
"""Results of a stage that are read at most for what they took."""
NAMES = ("name", "arch")
"""Last words of the config keys that say of which kind a result is; numbers do not."""


@dataclass(frozen=True)
class Cost:
    """What one job takes: peak memory (MB) and time (s)."""

    memory: int
    seconds: int


LIGHT = Cost(1000, 30)
TABLES = Cost(2000, 300)
MODEL = Cost(8000, 1800)

COSTS: dict[str, Cost] = {
    "images": Cost(2000, 1800),
    "labels": Cost(2000, 300),
    "splits": LIGHT,
    "activations": MODEL,
    "sae": Cost(8000, 900),
    "latents": Cost(8000, 300),
    "units": LIGHT,
    "scorer": MODEL,
    "image_embeddings": MODEL,
    "explainer_scorer": MODEL,
    "explainer_embeddings": MODEL,
    "responses": Cost(2000, 1800),
    "explanations": Cost(4000, 120),
    "probabilities": Cost(4000, 300),
    "sampling": LIGHT,
    "crowd": LIGHT,
    "scoring": LIGHT,
    "gallery": Cost(2000, 120),
    "pairs": Cost(2000, 600),
    "pair_activations": MODEL,
    "pair_latents": Cost(8000, 300),
    "matching": Cost(2000, 60),
    "perturbation": Cost(2000, 60),
    "sanity": Cost(2000, 60),
    "probe": Cost(2000, 300),
    "vlm": MODEL,
    "questions": Cost(2000, 600),
    "answers": MODEL,
    "attributions": MODEL,
    "synergy": MODEL,
    "sii": MODEL,
    "vlm_comparison": TABLES,
    "sae_comparison": TABLES,
    "comparison": TABLES,
    "report": TABLES,
    "tracking": TABLES,
}


@dataclass(frozen=True)
class Request:
    """What one batch asks for at its first attempt; `group` names the cluster job it may share, if any."""

    memory: int
    minutes: int
    gpu: int
    group: str | None

    def memory_mb(self, attempt: int) -> int:
        """Return the MB to ask for at an attempt (1, 2, ...)."""
        return self.memory * int(2 ** (attempt - 1))

    def runtime(self, attempt: int) -> int:
        """Return the minutes to ask for at an attempt (1, 2, ...)."""
        return self.minutes * int(2 ** (attempt - 1))


def request_all(batches: Mapping[str, Batch], build: Build, store: Store) -> dict[str, Request]:
    """Return what each batch asks for."""
    kinds = _Kinds(build.jobs, store)
    measured = {stage: _measured(stage, kinds, store) for stage in {b.stage for b in batches.values()}}
    groups = group_up(batches)
    return {
        batch.id: _request(batch, measured[batch.stage], kinds, groups[batch.id])
        for batch in batches.values()
    }


def _request(batch: Batch, measured: Mapping[str, Cost], kinds: "_Kinds", group: str | None) -> Request:
    costs = [measured.get(kinds.planned(job), COSTS[batch.stage]) for job in batch.jobs]
    memory = max(cost.memory for cost in costs)
    seconds = START_SECONDS + sum(cost.seconds for cost in costs)
    return Request(ceil(memory / STEP) * STEP, ceil(seconds / 60), int(needs_gpu(batch)), group)


def device_of(batch: Batch) -> str | None:
    """Return the device of the jobs of a batch that compute on one, None where none does."""
    return next((str(job.speed["device"]) for job in batch.jobs if "device" in job.speed), None)


def needs_gpu(batch: Batch) -> bool:
    """Say whether a batch asks for a GPU: it runs a model, and `device` is not cpu or mps."""
    return device_of(batch) not in (None, "cpu", "mps")


def group_up(batches: Mapping[str, Batch]) -> dict[str, str | None]:
    """Name the cluster job that each batch may share; one that runs a model shares none.

    Batches of one name never wait for each other through a batch of another name: the number in a name counts
    the models that run before, and what a sweep ends with has a name of its own.
    """
    depths: dict[str, int] = {}
    groups: dict[str, str | None] = {}
    for batch in batches.values():
        ups = [batches[up] for up in batch.after]
        depths[batch.id] = max((depths[up.id] + _is_heavy(up) for up in ups), default=0)
        end = STAGES[batch.stage][0].scope == "sweep"
        groups[batch.id] = None if _is_heavy(batch) else "ends" if end else f"light{depths[batch.id]}"
    return groups


def _is_heavy(batch: Batch) -> bool:
    return device_of(batch) is not None


class _Kinds:
    """Names kinds of results: those of one kind have the same data, models and methods."""

    def __init__(self, jobs: Mapping[JobId, Job], store: Store) -> None:
        self._jobs, self._store = jobs, store
        self._known: dict[tuple[bool, JobId], str | None] = {}

    def planned(self, job: Job) -> str:
        """Return the kind of a job of the build."""
        kind = self._kind(True, (job.stage, job.key))
        assert kind is not None
        return kind

    def made(self, stage: str, key: str) -> str | None:
        """Return the kind of a result in the store, None where an ancestor's record is gone."""
        return self._kind(False, (stage, key))

    def _kind(self, planned: bool, job_id: JobId) -> str | None:
        if (planned, job_id) not in self._known:
            self._known[planned, job_id] = self._find(planned, job_id)
        return self._known[planned, job_id]

    def _find(self, planned: bool, job_id: JobId) -> str | None:
        if planned:
            job = self._jobs[job_id]
            slice_, upstream, files = job.slice, job.inputs, job.files
        elif meta := self._store.meta(*job_id):
            slice_, upstream, files = meta["slice"], meta["upstream"], meta["files"]
        else:
            return None
        above = {self._kind(planned, up) for up in _pairs(upstream)}
        if None in above:
            return None
        own = _named(slice_) if above else [slice_, files]
        text = canonical([job_id[0], own, sorted(kind for kind in above if kind)])
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def _pairs(upstream: Inputs) -> Iterable[JobId]:
    for stage, keys in upstream.items():
        yield from ((stage, key) for key in ([keys] if isinstance(keys, str) else keys))


def _named(slice_: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the entries of a slice that name a kind, by dotted key."""
    found: dict[str, Any] = {}
    for key, value in slice_.items():
        if isinstance(value, Mapping):
            found |= _named(value, f"{prefix}{key}.")
        elif key.rsplit(".", 1)[-1] in NAMES:
            found[f"{prefix}{key}"] = value
    return found


def _measured(stage: str, kinds: _Kinds, store: Store) -> dict[str, Cost]:
    """Return what the largest result of each kind of a stage took, with a margin, a job of its pass.

    Results of one pass have one start and one duration.
    """
    metas = [(key, meta) for key in store.keys(stage)[:LOOKED_AT] if (meta := store.meta(stage, key))]
    passes = Counter(meta["started"] for _, meta in metas)
    largest: dict[str, Cost] = {}
    for key, meta in metas:
        kind = kinds.made(stage, key)
        if kind is None:
            continue
        memory = START_MEMORY + MEMORY_MARGIN * meta["peak_memory_bytes"] / 1e6
        seconds = TIME_MARGIN * meta["seconds"] / passes[meta["started"]]
        before = largest.get(kind, Cost(0, 0))
        largest[kind] = Cost(max(before.memory, ceil(memory)), max(before.seconds, ceil(seconds)))
    return largest


@dataclass(frozen=True)
class Requests:
    """What the batches of a plan ask for, as the plan's file beside it says."""

    plan: Plan

    @cached_property
    def _rows(self) -> dict[str, Request]:
        record = read_json(self.plan.folder / "requests.json")
        return {batch: Request(**row) for batch, row in record.items()}

    def __getitem__(self, batch: str) -> Request:
        return self._rows[batch]


def write_requests(plan: Plan, build: Build, store: Store) -> None:
    """Write what the batches of a plan ask for, for the jobs that read it."""
    rows = request_all(plan.batches, build, store)
    write_json(plan.folder / "requests.json", {batch: asdict(row) for batch, row in rows.items()})
