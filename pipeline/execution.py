"""Run one batch of one stage: check, compute in a temporary folder, rename.

Also `python -m pipeline.execution PLAN STAGE BATCH`, for stages with a process of their own.
"""

import copy
import hashlib
import importlib
import os
import platform
import resource
import shutil
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from pipeline.devices import own_device
from pipeline.disk_errors import disk_trouble
from pipeline.errors import AssayError
from pipeline.files import canonical, read_json, sha256, write_json
from pipeline.interrupts import STOPPED
from pipeline.plan.accepted import Accepted
from pipeline.plan.batches import Batch, Plan, read_plan, row_of
from pipeline.plan.content import file_checksum, folder_checksum
from pipeline.plan.fingerprint import Fingerprints, source
from pipeline.plan.keys import AWAITED, Job, installed_version
from pipeline.plan.memory import Memory
from pipeline.plan.project import Project, find_project
from pipeline.plan.resources import device_of
from pipeline.plan.shared import open_store
from pipeline.plan.state import JobId
from pipeline.plan.store import Store, hidden_name
from pipeline.progress import reported_to

Config = dict[str, Any]
Consumed = dict[str, dict[str, str]]
"""Result to the checksum of each of its files."""
PASSED_OVER = "passed over"


def run_batch(plan: Plan, batch_id: str) -> None:
    """Run a batch's jobs, each on its own; write its marker, and a note for each job that failed.

    A job whose input failed is passed over; one failure stops neither its batch nor other points.
    """
    project = find_project(plan.path.parent)
    batch = replace(plan.batches[batch_id], jobs=list(iter(plan.batches[batch_id].jobs)))
    with reported_to(plan.progress(batch)):
        for jobs in _passes(batch):
            _try_jobs(project, plan, jobs)
    write_json(Path(plan.marker(batch)), {"keys": [job.key for job in batch.jobs]})


def _try_jobs(project: Project, plan: Plan, jobs: Sequence[Job]) -> None:
    """Run jobs that share a pass; where that fails, each on its own, so that one stops no other."""
    try:
        _run_jobs(project, jobs)
        _forget_failures(plan, jobs)
    except AssayError as error:
        if len(jobs) == 1:
            _note_failure(plan, jobs, str(error))
        for part in _apart(project, jobs) if len(jobs) > 1 else ():
            _try_jobs(project, plan, part)
    except Exception as error:
        place = project.results / jobs[0].stage
        _note_failure(plan, jobs, disk_trouble(error, place) or traceback.format_exc())


def _passes(batch: Batch) -> list[list[Job]]:
    row = row_of(batch.jobs[0])
    if row.together or row.shares:
        return [list(batch.jobs)]
    return [[job] for job in batch.jobs]


def _apart(project: Project, jobs: Sequence[Job]) -> list[list[Job]]:
    """Part jobs whose pass failed: those without all their inputs from the others, else each from each."""
    store = open_store(project)
    ready = [job for job in jobs if all(store.exists(stage, key) for stage, key in job.upstream)]
    lacking = [[job] for job in jobs if job not in ready]
    return [ready, *lacking] if ready and lacking else [[job] for job in jobs]


def _note_failure(plan: Plan, jobs: Sequence[Job], message: str) -> None:
    for job in jobs:
        write_json(_failure(plan, job), {"stage": job.stage, "key": job.key, "message": message})


def _forget_failures(plan: Plan, jobs: Sequence[Job]) -> None:
    """Take back what an earlier attempt noted."""
    for job in jobs:
        _failure(plan, job).unlink(missing_ok=True)


def _failure(plan: Plan, job: Job) -> Path:
    return plan.folder / "failures" / f"{job.stage}-{job.key}.json"


def _run_jobs(project: Project, jobs: Sequence[Job]) -> None:
    """Run jobs that share one pass; raises AssayError where an input is not what it was."""
    with closing(Memory(project.memory)) as memory:
        _check_unchanged(memory, jobs)
        _check_files(memory, jobs[0])
        store = open_store(project)
        jobs, consumed = _not_made(store, jobs, _consumed(store, jobs))
        if not jobs:
            return
        _check_inputs(store, jobs)
        folders = [_temporary(project, job) for job in jobs]
        try:
            started, clock = time.time(), time.perf_counter()
            partials = [_partial(project, job, each) for job, each in zip(jobs, consumed, strict=True)]
            notes = _call(project, jobs, folders, partials)
            facts = {"started": round(started, 3), "seconds": round(time.perf_counter() - clock, 3)}
            _check_unchanged(memory, jobs)
            for job, folder, note, each in zip(jobs, folders, notes, consumed, strict=True):
                write_meta(project, job, folder, each, note, facts)
                publish(project, job, folder)
                store.upload(job.stage, job.key)
            for partial in partials:
                shutil.rmtree(partial, ignore_errors=True)
        finally:
            for folder in folders:
                shutil.rmtree(folder, ignore_errors=True)


def _not_made(
    store: Store, jobs: Sequence[Job], consumed: Sequence[Consumed]
) -> tuple[list[Job], list[Consumed]]:
    """Return the jobs, and what they consume, whose results nobody else has made since the plan.

    That is an earlier attempt at the batch, a job that a killed run left on a cluster, or another machine.
    """
    left = [(job, each) for job, each in zip(jobs, consumed, strict=True) if not _is_made(store, job, each)]
    lacking = [job for job, _ in left]
    store.share((job.stage, job.key) for job in jobs if job not in lacking)  # its upload may have failed
    return lacking, [each for _, each in left]


def _is_made(store: Store, job: Job, consumed: Consumed) -> bool:
    """Say whether a result is there, whole, and made by this very code of these very inputs."""
    meta = store.meta(job.stage, job.key)
    made_by = (consumed, job.code, job.libraries, job.files)
    return (
        meta is not None
        and (meta["inputs"], meta["code"], meta["libraries"], meta["files"]) == made_by
        and not store.damage(job.stage, job.key, thorough=True)
    )


def _temporary(project: Project, job: Job) -> Path:
    folder = project.result(job.stage, hidden_name(job.key))
    folder.mkdir(parents=True)
    return folder


def _partial(project: Project, job: Job, consumed: Consumed) -> Path:
    """Return where a resumable job keeps what it has done; inputs of other contents have another place."""
    made_of = hashlib.sha256(canonical(consumed).encode()).hexdigest()[:8]
    return project.partials / job.stage / f"{job.key}-{made_of}"


def _check_unchanged(memory: Memory, jobs: Sequence[Job]) -> None:
    """Refuse to run other code, libraries or files than the plan's key says."""
    prints = Fingerprints(memory.text)
    for job in jobs:
        for module, fingerprint in job.code.items():
            if source(module) and prints.fingerprint(module) != fingerprint:
                raise AssayError(f"code changed since planning ({module}); run the same command again")
        for library, version in job.libraries.items():
            if installed_version(library) != version:
                raise AssayError(f"{library} changed since planning; run the same command again")


def _check_files(memory: Memory, job: Job) -> None:
    """Refuse to read other files than those whose checksums are in the key."""
    for key, checksum in job.files.items():
        if checksum == AWAITED or key not in job.paths:
            continue
        path, patterns = Path(job.paths[key]), job.patterns.get(key)
        now = folder_checksum(memory, path, patterns, key) if patterns else file_checksum(memory, path, key)
        if now != checksum:
            raise AssayError(f"{key}: {path} changed since planning; run the same command again")


def _consumed(store: Store, jobs: Sequence[Job]) -> list[Consumed]:
    """Return what each job consumes, as its inputs' metas say; AssayError where an input is not there."""
    found: Consumed = {}
    for stage, key in _upstream(jobs):
        if not store.exists(stage, key):
            raise AssayError(f"{PASSED_OVER}: its input {stage}/{key} is not there")
        outputs = (store.meta(stage, key) or {"outputs": {}})["outputs"]
        found[f"{stage}/{key}"] = {name: facts["sha256"] for name, facts in outputs.items()}
    names = ([f"{stage}/{key}" for stage, key in job.upstream] for job in jobs)
    return [{name: found[name] for name in own} for own in names]


def _check_inputs(store: Store, jobs: Sequence[Job]) -> None:
    """Fetch and hash every input file of the jobs; a damaged result is moved aside and must be rebuilt."""
    for stage, key in _upstream(jobs):
        if damage := store.fetch(stage, key):
            moved = store.quarantine(stage, key)
            raise AssayError(
                f"{stage}/{key} was damaged ({damage}); it is now in {moved}, and a run rebuilds it"
            )


def _upstream(jobs: Sequence[Job]) -> list[JobId]:
    return list(dict.fromkeys(upstream for job in jobs for upstream in job.upstream))


def stage_config(job: Job) -> Config:
    """Return what a stage sees of the config: its frozen slice, its paths and its speed keys, nested."""
    config: Config = {}
    for key, value in copy.deepcopy([*job.slice.items(), *job.speed.items()]):
        _set(config, key, value)
    for key, value in job.paths.items():
        _set(config, key, Path(value))
    return config


def _set(config: Config, dotted: str, value: Any) -> None:
    *parents, leaf = dotted.split(".")
    node = config
    for step in parents:
        node = node.setdefault(step, {})
    node[leaf] = {**value, **node.get(leaf, {})} if isinstance(value, dict) else value


def _call(
    project: Project, jobs: Sequence[Job], folders: Sequence[Path], partials: Sequence[Path]
) -> list[list[str]]:
    """Run a stage's module; jobs that share a pass get each their own of the inputs that may differ."""
    module, row = importlib.import_module(f"pipeline.stages.{jobs[0].stage}"), row_of(jobs[0])
    configs = [stage_config(job) for job in jobs]
    inputs: dict[str, Any] = {
        stage: _folders(project, stage, [job.inputs[stage] for job in jobs] if stage in row.shares else keys)
        for stage, keys in jobs[0].inputs.items()
    }
    if row.resumable:
        notes: list[list[str]] = module.run_together(configs, inputs, list(folders), list(partials))
        return notes
    if row.together:
        shared: list[str] = module.run_together(configs, inputs, list(folders))
        return [shared for _ in jobs]
    return [module.run(configs[0], inputs, folders[0]) or []]


def _folders(project: Project, stage: str, keys: Any) -> Path | list[Path]:
    return (
        [project.result(stage, key) for key in keys]
        if isinstance(keys, list)
        else project.result(stage, keys)
    )


def write_meta(
    project: Project,
    job: Job,
    folder: Path,
    consumed: Consumed,
    notes: Sequence[str],
    facts: Mapping[str, Any],
) -> None:
    """Write meta.json, last: what the result is, from what it came, what it holds."""
    accepted = Accepted(project.accepted)
    outputs = {
        path.relative_to(folder).as_posix(): {"sha256": sha256(path), "size": path.stat().st_size}
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    if not outputs:
        raise AssayError(f"{folder} is empty: the working folder was removed; run the same command again")
    versions = [("code", module, value) for module, value in job.code.items()]
    versions += [("library", name, value) for name, value in job.libraries.items()]
    meta = {
        "stage": job.stage,
        "key": job.key,
        "slice": job.slice,
        "upstream": job.inputs,
        "inputs": consumed,
        "code": job.code,
        "libraries": job.libraries,
        "files": job.files,
        "accepted": [
            f"{kind} {name} {value}"
            for kind, name, value in versions
            if accepted.used(job.stage, kind, name, value)
        ],
        "outputs": outputs,
        "notes": list(notes),
        **facts,
        "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "device": job.speed.get("device", "cpu"),
        "machine": platform.machine(),
        "python": platform.python_version(),
    }
    write_json(folder / "meta.json", meta)


def publish(project: Project, job: Job, folder: Path) -> None:
    """Give a finished folder its name; an unfit result that stands there goes first."""
    target = project.result(job.stage, job.key)
    store = Store(project)
    if store.exists(job.stage, job.key):
        ours, theirs = read_json(folder / "meta.json"), store.meta(job.stage, job.key)
        if theirs and theirs["outputs"] == ours["outputs"] and not store.damage(job.stage, job.key):
            write_json(target / "meta.json", ours)  # the same bytes, of inputs that are here now
            return
        store.remove(job.stage, job.key)
    try:
        folder.rename(target)
    except OSError:
        if not target.exists():
            raise


def main(arguments: Sequence[str]) -> None:
    """Run one batch of a plan file: PLAN STAGE BATCH."""
    path, _, batch_id = arguments
    plan = read_plan(Path(path).resolve())
    with own_device(device_of(plan.batches[batch_id]) or "cpu"):
        run_batch(plan, batch_id)


if __name__ == "__main__":
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        main(sys.argv[1:])
    except KeyboardInterrupt:  # the run says what was stopped, and how to go on
        sys.exit(STOPPED)
