"""Run a sweep: plan, hand the missing jobs to Snakemake, replan where an input turned out damaged, finish."""

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from rich.console import Console

from pipeline import kubernetes_jobs
from pipeline.disk_errors import little_room
from pipeline.execution import PASSED_OVER
from pipeline.interrupts import STOPPED, StoppedError, wait_for
from pipeline.plan.batches import Plan
from pipeline.plan.project import Project
from pipeline.plan.store import Store
from pipeline.plan.sweep import Sweep
from pipeline.plan.workflow import Prepared, failures, hand_over, prepare, publish_sweep, share, sweep_record
from pipeline.printing import how_to_give, print_plan
from pipeline.profiles import Way, read_way
from pipeline.progress import read_progress
from pipeline.run_lock import one_run_at_a_time
from pipeline.slurm_queue import left_in_queue

POLL = 0.2
"""Seconds between looks at the markers."""
QUIET = 20.0
"""Seconds between looks at how far long stages are."""


def run_sweep(
    project: Project,
    sweep: Sweep,
    cores: int | None,
    dry_run: bool,
    profile: str,
    wait: bool = True,
    options: Sequence[str] = (),
) -> int:
    """Run what is missing; return the exit code: 0 where all is there or awaited, 1 where a stage failed.

    wait: where another run is at work in the project, wait for its end; else AssayError.
    options: more words for Snakemake's command line.
    """
    way = read_way(project, profile, cores, options)
    if dry_run:
        print_plan(prepare(project, sweep))
        return 0
    with one_run_at_a_time(project, f"sweep={sweep.name}", wait=wait) as lock:
        return _run_locked(project, sweep, way, lock)


def _run_locked(project: Project, sweep: Sweep, way: Way, lock: int) -> int:
    Store(project).sweep_leftovers()
    prepared = prepare(project, sweep)
    if not prepared.status.to_run:
        return _report(prepared)
    print_plan(prepared)
    _tell_of_jobs(project, way)
    while True:
        before = prepared.status.to_run
        plan = hand_over(prepared)
        try:
            _snakemake(project, plan, way, lock)
        except StoppedError:
            return _report_stopped(prepared, plan)
        finally:
            if way.pod_template:
                kubernetes_jobs.stop(plan.path)
        failed = failures(plan)
        prepared = prepare(project, sweep)
        if not prepared.status.to_run:
            return _report(prepared)
        if (
            prepared.status.to_run == before
        ):  # a damaged or rebuilt input may ask for more rounds, each for other jobs
            break
        if _died(plan) or any("was damaged" not in row["message"] for row in failed if _is_own(row)):
            break
    return _report_failures(prepared, plan)


def _tell_of_jobs(project: Project, way: Way) -> None:
    """Name the jobs that a killed run left on a cluster; KubectlError where Kubernetes cannot be asked."""
    cluster, jobs, command = "Slurm", [], "scancel"
    if way.cluster == "slurm":
        jobs = left_in_queue(project)
    elif way.pod_template:
        cluster, command = "Kubernetes", "kubectl delete job"
        jobs = kubernetes_jobs.left_in_project(project.root, way.pod_template)
    if jobs:
        print(f"{cluster} still has jobs of an earlier run in this folder: what they make counts, and may be")
        print(f"made twice. To stop them: {command} {' '.join(jobs)}", flush=True)


def _snakemake(project: Project, plan: Plan, way: Way, lock: int) -> None:
    """Let Snakemake run a plan: with its live display on a terminal, else with a line a finished stage.

    It holds the project's lock too: where this process alone is killed, no other run begins beside it.
    """
    command = [sys.executable, "-m", "snakemake", "--snakefile", "Snakefile", *way.arguments]
    # Snakemake reads values as YAML and paths as patterns; the project's own path may be anything.
    command += ["--config", f"plan={plan.path.relative_to(project.root)}"]
    paths = [str(project.root), os.environ.get("PYTHONPATH")]
    # A profile may say python.
    commands = [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "PATH": os.pathsep.join(commands),
    }
    if sys.stderr.isatty():
        command += ["--logger", "rich"]
        with subprocess.Popen(command, cwd=project.root, env=environment, pass_fds=[lock]) as process:
            wait_for(process, lambda: _ends(process))
        return
    with (
        (plan.folder / "snakemake.log").open("w") as log,
        subprocess.Popen(
            command, cwd=project.root, env=environment, stdout=log, stderr=log, pass_fds=[lock]
        ) as process,
    ):
        wait_for(process, lambda: _watch(process, plan))


def _ends(process: "subprocess.Popen[bytes]") -> None:
    process.wait()


def _watch(process: "subprocess.Popen[bytes]", plan: Plan) -> None:
    """Print a line when a stage of the plan has ended, and how far long ones are, until the process ends."""
    started, told = time.monotonic(), set[str]()
    left: dict[str, list[Path]] = {}
    for batch in plan.batches.values():
        left.setdefault(batch.stage, []).append(Path(plan.marker(batch)))
    ended, next_look = False, QUIET
    while not ended:
        ended = process.poll() is not None
        for stage, markers in left.items():
            if stage not in told and all(marker.is_file() for marker in markers):
                told.add(stage)
                print(f"{time.monotonic() - started:7.1f} s  {_ended(stage, plan)}", end="", flush=True)
                print(f" ({len(told)} of {len(left)} stages)", flush=True)
        if (since := time.monotonic() - started) > next_look:
            for line in _at_work(plan):
                print(f"{since:7.1f} s  {line}", flush=True)
            next_look = since + QUIET
        if not ended:
            time.sleep(POLL)


def _at_work(plan: Plan) -> Iterator[str]:
    """Yield how far each batch is that says so."""
    for batch in plan.batches.values():
        with suppress(OSError, ValueError, TypeError):  # it has just ended
            yield f"{batch.stage}: {read_progress(plan.progress(batch)).words()}"


def _ended(stage: str, plan: Plan) -> str:
    """Say that a stage is done, or how many of its results failed or were passed over."""
    rows = [row for row in failures(plan) if row["stage"] == stage]
    own = sum(_is_own(row) for row in rows)
    parts = {"failed": own, "passed over": len(rows) - own}
    found = ", ".join(f"{count} {word}" for word, count in parts.items() if count)
    return f"{stage}: {found}" if found else f"{stage} done"


def _died(plan: Plan) -> list[str]:
    """Return the stages of batches that never ended: their process was killed, perhaps for memory."""
    return sorted({batch.stage for batch in plan.batches.values() if not Path(plan.marker(batch)).is_file()})


def _is_own(failure: Mapping[str, str]) -> bool:
    return not failure["message"].startswith(PASSED_OVER)


def _report(prepared: Prepared) -> int:
    console = Console(highlight=False, soft_wrap=True)
    share(prepared)
    folder = publish_sweep(prepared.project, sweep_record(prepared.build))
    for path in dict.fromkeys(prepared.status.waiting_for.values()):
        console.print(f"waiting for the ratings of people: {how_to_give(path)}")
    for line in dict.fromkeys([*prepared.status.notes, *_drift(prepared)]):
        console.print(f"note: {line}", markup=False)
    if folder:
        table = folder / "methods.txt"
        console.print(f"{_all(len(prepared.build.points))} there; tables and figure: {_latest(folder)}")
        if table.is_file():
            print(table.read_text(encoding="utf-8"), end="")
    return 0


def _all(n_points: int) -> str:
    return "the point is" if n_points == 1 else f"all {n_points} points are"


def _drift(prepared: Prepared) -> Iterator[str]:
    if not any(point.values["crowd"].get("study") for point in prepared.build.points):
        return
    from pipeline.drift import drift_notes

    yield from drift_notes(prepared.project, prepared.build.points)


def _latest(folder: Path) -> str:
    return os.path.relpath(folder.parent / "latest")


def _report_stopped(prepared: Prepared, plan: Plan) -> int:
    ended = sum(Path(marker).is_file() for marker in plan.markers)
    print(
        f"stopped after {ended} of {len(plan.markers)} jobs; what was made is kept, "
        "and the same command goes on from here.",
        file=sys.stderr,
    )
    return STOPPED


def _report_failures(prepared: Prepared, plan: Plan) -> int:
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    failed = failures(plan)
    own = [row for row in failed if _is_own(row)]
    for message, count in Counter(f"{row['stage']}: {row['message']}" for row in own).items():
        console.print(f"failed: {message}{f' (x{count})' if count > 1 else ''}", markup=False)
    left = len(prepared.status.to_run)
    console.print(
        f"{left} results are not there; what was made is kept, and the same command goes on from here."
    )
    died = _died(plan)
    if len(died) == len({batch.stage for batch in plan.batches.values()}) and not own:
        console.print("Snakemake did not start; its log says why")
    elif died:
        why = little_room(prepared.project.results) or "a killed process is often one that ran out of memory"
        console.print(f"did not end: {', '.join(died)}; {why}")
    log = plan.folder / "snakemake.log"
    if not own and log.is_file():
        console.print(f"Snakemake's log: {log}")
    return 1
