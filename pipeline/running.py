"""Run a sweep: plan, hand the missing jobs to Snakemake, replan where an input turned out damaged, finish."""

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from pipeline.errors import AssayError
from pipeline.plan.batches import Plan
from pipeline.plan.project import Project
from pipeline.plan.sweep import Sweep
from pipeline.plan.workflow import Prepared, failures, hand_over, prepare, publish_sweep, sweep_record
from pipeline.printing import print_plan

ROUNDS = 3
"""Plans at most: one, and one more where a damaged or rebuilt input asks for it, twice."""


@contextmanager
def one_run_at_a_time(project: Project) -> Iterator[None]:
    """Hold the project's lock; the system lets go of it when a run dies, so none is left behind."""
    project.results.mkdir(exist_ok=True)
    with (project.results / ".lock").open("w") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AssayError(f"another run is at work in {project.root}: wait for it, or stop it") from None
        yield


def run_sweep(project: Project, sweep: Sweep, cores: int | None, dry_run: bool, profile: str) -> int:
    """Run what is missing; return the exit code: 0 where all is there or awaited, 1 where a stage failed."""
    if dry_run:
        print_plan(prepare(project, sweep))
        return 0
    with one_run_at_a_time(project):
        return _run_locked(project, sweep, cores, profile)


def _run_locked(project: Project, sweep: Sweep, cores: int | None, profile: str) -> int:
    prepared = prepare(project, sweep)
    if not prepared.status.to_run:
        return _report(prepared)
    prepared.store.sweep_leftovers()
    print_plan(prepared)
    for _ in range(ROUNDS):
        plan = hand_over(prepared)
        _snakemake(project, plan, cores, profile)
        failed = failures(plan)
        prepared = prepare(project, sweep)
        if not prepared.status.to_run:
            return _report(prepared)
        if failed and not any("was damaged" in row["message"] for row in failed):
            break
    return _report_failures(prepared, plan)


def _snakemake(project: Project, plan: Plan, cores: int | None, profile: str) -> None:
    command = [sys.executable, "-m", "snakemake", "--snakefile", "Snakefile"]
    command += ["--profile", f"profiles/{profile}", "--config", f"plan={plan.path}"]
    command += [] if cores is None else ["--cores", str(cores)]
    if sys.stderr.isatty():
        command += ["--logger", "rich"]
    log = plan.folder / "snakemake.log"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [str(project.root), os.environ.get("PYTHONPATH")]))}
    if sys.stderr.isatty():
        subprocess.run(command, cwd=project.root, env=environment, check=False)
        return
    with log.open("w") as stream:
        subprocess.run(command, cwd=project.root, env=environment, check=False, stdout=stream, stderr=stream)


def _report(prepared: Prepared) -> int:
    console = Console(highlight=False, soft_wrap=True)
    folder = publish_sweep(prepared.project, sweep_record(prepared.build))
    for _, path in prepared.status.waiting_for.items():
        console.print(f"waiting for the ratings of people: put them at {path}")
    for line in dict.fromkeys(notes(prepared)):
        console.print(f"note: {line}", markup=False)
    if folder:
        table = folder / "methods.txt"
        console.print(f"all {len(prepared.build.points)} points are there; tables and figure: {_latest(folder)}")
        if table.is_file():
            print(table.read_text(encoding="utf-8"), end="")
    return 0


def _latest(folder: Path) -> str:
    return os.path.relpath(folder.parent / "latest")


def notes(prepared: Prepared) -> Iterator[str]:
    """Yield what the stages noted about the results of a sweep."""
    for stage, key in prepared.build.jobs:
        meta = prepared.store.meta(stage, key)
        if meta:
            yield from (f"{stage}: {line}" for line in meta["notes"])
            yield from (f"{stage}: counts as an older version by assay accept: {line}" for line in meta["accepted"])


def _report_failures(prepared: Prepared, plan: Plan) -> int:
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    failed = failures(plan)
    own = [row for row in failed if "was passed over: its input" not in row["message"]]
    for message in dict.fromkeys(f"{row['stage']}: {row['message']}" for row in own):
        console.print(f"failed: {message}", markup=False)
    left = len(prepared.status.to_run)
    console.print(f"{left} results are not there; what was made is kept, and the same command goes on from here.")
    log = plan.folder / "snakemake.log"
    if not own and log.is_file():
        console.print(f"Snakemake's log: {log}")
    return 1
