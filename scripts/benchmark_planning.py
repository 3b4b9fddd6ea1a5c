"""What planning costs: composing, a cold plan, and a run that has nothing to do, up to 20,000 points.

Every measured command is a process of its own; CPU seconds (user and system) and peak memory are the
kernel's. The finished results that a run with nothing to do finds are written by this script, in a project
of its own, with the planner's own keys.
"""

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from pipeline.errors import AssayError
from pipeline.execution import publish, write_meta
from pipeline.plan.groups import GroupFiles
from pipeline.plan.project import Project
from pipeline.plan.store import hidden_name
from pipeline.plan.sweep import expand_sweep
from pipeline.plan.workflow import prepare
from pipeline.seeds import generator

ROOT = Path(__file__).resolve().parents[1]
SWEEP = "demo"
PER_SEED = 8
"""Points of the sweep for each value of sampler.seed."""
N_FILES = {"sampling": 4}
"""Files of a written result; other stages have two."""
VARIED = ("explainer", "sampler", "aggregation", "estimator", "sae", "matching", "attribution", "stats")
"""Groups that are drawn at random where composing many choices is timed."""
SAMPLE = 20
"""Points that plain Hydra composes; its time for all of them is extrapolated."""
LARGEST_PEER = 100
"""Points up to which DVC is timed: the `dvc repro` that must come before takes many minutes for 1,000."""
NOOP = {1000: 2.0, 20_000: 20.0}
COMPOSE = {1000: 2.0}
MEMORY_MB = 500


@dataclass(frozen=True)
class Used:
    """What a process took: wall and CPU seconds, and its peak memory in MB."""

    wall: float
    cpu: float
    memory: float


STARTER = """import json, resource, subprocess, sys, time
start = time.perf_counter()
code = subprocess.run(sys.argv[2:]).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
wall = time.perf_counter() - start
with open(sys.argv[1], "w") as stream:
    json.dump([code, wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024], stream)
"""
"""Starts a command from a small process: a child has at least the peak memory of what it was forked from."""


def measured(command: Sequence[str], folder: Path) -> Used:
    """Run a command in a folder, by the code that is there; raises AssayError where it fails."""
    environment = os.environ | {"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}
    with tempfile.NamedTemporaryFile(mode="r", suffix=".json") as facts:
        start = [sys.executable, "-I", "-S", "-c", STARTER, facts.name]
        done = subprocess.run(
            [*start, *command], cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        text = facts.read()
    code, *used = json.loads(text) if text else [done.returncode, 0, 0, 0]
    if code:
        raise AssayError(f"{' '.join(command)} ended with {code}:\n{(done.stdout + done.stderr)[-2000:]}")
    return Used(*used)


def make_project(folder: Path) -> Project:
    """Copy what planning needs of this project."""
    folder.mkdir(parents=True)
    for part in ("Snakefile", "pyproject.toml"):
        shutil.copy(ROOT / part, folder)
    for part in ("conf", "profiles", "pipeline"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    return Project(folder)


def overrides(n_points: int) -> list[str]:
    """Return what makes the demo a sweep of at least n points: more seeds of the sampler."""
    n_seeds = math.ceil(n_points / PER_SEED)
    return [f"sampler.seed=range(0,{n_seeds})", "sampler.n_inputs=30", "tracking=none"]


def pretend(project: Project, changes: Sequence[str], missing: Collection[str]) -> None:
    """Write a finished result for every job of the sweep, but for those of the stages in `missing`."""
    prepared = prepare(project, expand_sweep(project.conf, SWEEP, list(changes)))
    outputs: dict[tuple[str, str], dict[str, str]] = {}
    for (stage, key), job in prepared.build.jobs.items():
        if stage in missing:
            continue
        folder = project.result(stage, hidden_name(key))
        folder.mkdir(parents=True)
        for i in range(N_FILES.get(stage, 2)):
            (folder / f"table{i}.parquet").write_bytes(f"{key} {i}".encode() * 100)
        consumed = {f"{up}/{upstream}": outputs[up, upstream] for up, upstream in job.upstream}
        write_meta(project, job, folder, consumed, [], {"started": 0.0, "seconds": 0.0})
        publish(project, job, folder)
        meta, _ = prepared.store.examine(stage, key)
        assert meta is not None
        outputs[stage, key] = {name: facts["sha256"] for name, facts in meta["outputs"].items()}


def choices(n_points: int) -> list[list[str]]:
    """Return n points, each another choice of groups drawn at random."""
    files = GroupFiles(ROOT / "conf", lambda _, make: make())
    rng = generator(0, "benchmark planning", n_points)
    options = {
        group: [each for each in files.options(group) if "???" not in str(files.file(group, each))]
        for group in VARIED
    }
    return [
        [f"{group}={all_[rng.integers(len(all_))]}" for group, all_ in options.items()]
        for _ in range(n_points)
    ]


def compose(kind: str, n_points: int) -> None:
    """Compose points with nothing remembered: the sweep's, random choices, or some of these by Hydra."""
    from hydra import compose as by_hydra
    from hydra import initialize_config_dir

    from pipeline.plan.compose import Composer

    if kind == "hydra":
        for point in choices(SAMPLE):
            with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
                by_hydra("config", overrides=point)
        return
    sweep = expand_sweep(ROOT / "conf", SWEEP, overrides(n_points)).points
    composer = Composer(ROOT / "conf")
    for point in sweep if kind == "sweep" else choices(n_points):
        composer.compose(point)


def planning(arguments: argparse.Namespace) -> int:
    """Measure composing, a cold plan and a run with nothing to do beside plain Hydra, and DVC if it is given.

    Columns: points of the sweep composed with nothing remembered; as many random choices of groups; the same
    choices by Hydra (of 20 points, extrapolated); `assay plan` in an empty project; `assay run` where
    everything is there. CPU seconds of whole processes, Python's start and imports among them.
    """
    from benchmark_record import record

    head = f"{'points':>7} {'compose':>8} {'choices':>8} {'Hydra':>8} {'cold plan':>10} {'MB':>5}"
    print(f"{head} {'no-op':>7} {'wall':>7} {'MB':>5}{'  DVC status' if arguments.dvc else ''}", flush=True)
    rows: list[tuple[int, Used, Used, Used, Used]] = []
    for n_points in arguments.points:
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            row = _measure(n_points, Path(folder))
            peer = _dvc(arguments.dvc, n_points, Path(folder)) if arguments.dvc else None
        sweep, chosen, hydra, cold, noop = row
        rows.append((n_points, sweep, chosen, cold, noop))
        composed = f"{n_points:>7} {sweep.cpu:>8.2f} {chosen.cpu:>8.2f} {hydra:>8.1f}"
        planned = (
            f"{cold.cpu:>10.2f} {cold.memory:>5.0f} {noop.cpu:>7.2f} {noop.wall:>7.2f} {noop.memory:>5.0f}"
        )
        print(f"{composed} {planned}{f'{peer.cpu:>12.2f}' if peer else ''}", flush=True)
        status = peer.cpu if peer else math.nan
        record(arguments.record, "composing", "points", n_points, chosen.cpu, hydra, "Hydra's compose")
        record(arguments.record, "nothing to do", "points", n_points, noop.cpu, status, "dvc status")
    _print_growth(rows)
    missed = [line for row in rows for line in _missed(*row)]
    print("\n".join(missed) or "every target is met")
    return 1 if missed else 0


def _measure(n_points: int, folder: Path) -> tuple[Used, Used, float, Used, Used]:
    project = make_project(folder / "assay")
    own = [sys.executable, str(Path(__file__).resolve())]
    assay = [sys.executable, "-m", "pipeline.cli"]
    sweep = [f"sweep={SWEEP}", *overrides(n_points)]
    composed = [
        measured([*own, kind, str(n_points)], ROOT) for kind in ("sweep", "choices", "hydra", "nothing")
    ]
    hydra = (composed[2].cpu - composed[3].cpu) / SAMPLE * n_points + composed[3].cpu
    cold = measured([*assay, "plan", *sweep], project.root)
    measured([*own, "pretend", "", str(project.root), *sweep[1:]], project.root)
    measured([*assay, "run", *sweep], project.root)
    noop = measured([*assay, "run", *sweep], project.root)
    return composed[0], composed[1], hydra, cold, noop


def _print_growth(rows: Sequence[tuple[int, Used, Used, Used, Used]]) -> None:
    """Print the exponent of each column over the sizes from 1,000 on, or over all where these are too few."""
    large = [row for row in rows if row[0] >= 1000]
    used = large if len(large) > 1 else rows
    if len(used) < 2:
        return
    sizes = np.log([row[0] for row in used])
    names = ("compose", "choices", "cold plan", "no-op")
    slopes = [np.polyfit(sizes, np.log([row[i].cpu for row in used]), 1)[0] for i in range(1, 5)]
    told = ", ".join(f"{name} points^{slope:.2f}" for name, slope in zip(names, slopes, strict=True))
    print(f"growth of CPU seconds from {used[0][0]} points on: {told}")


def _missed(n_points: int, sweep: Used, chosen: Used, cold: Used, noop: Used) -> list[str]:
    found = []
    for what, used, targets in (
        ("composing", sweep, COMPOSE),
        ("composing choices", chosen, COMPOSE),
        ("a run with nothing to do", noop, NOOP),
    ):
        if used.cpu > targets.get(n_points, math.inf):
            found.append(f"missed: {what} of {n_points}: {used.cpu:.2f} CPU s (target {targets[n_points]:g})")
    for what, used in (("a cold plan", cold), ("a run with nothing to do", noop)):
        if used.memory > MEMORY_MB:
            found.append(f"missed: {what} of {n_points}: {used.memory:.0f} MB (target {MEMORY_MB})")
    return found


def _dvc(command: str, n_points: int, folder: Path) -> Used | None:
    """Time `dvc status` of as many stages that each copy a file; None for more than LARGEST_PEER."""
    if n_points > LARGEST_PEER:
        return None
    place = folder / "dvc"
    place.mkdir()
    stages = ["stages:"]
    for i in range(n_points):
        (place / f"in{i}").write_text(str(i))
        stages.append(f"  s{i}: {{cmd: cp in{i} out{i}, deps: [in{i}], outs: [out{i}]}}")
    (place / "dvc.yaml").write_text("\n".join(stages))
    measured([command, "init", "--no-scm", "-q"], place)
    measured([command, "repro", "-q"], place)
    return measured([command, "status", "-q"], place)


TRIVIAL = """from pathlib import Path


def run(config, inputs, output):
    (output / "empty.txt").write_text("nothing")
    return []
"""
LIGHT = ("scoring",)
OWN_PROCESS = ("gallery",)
ENDS = ("comparison", "report")
TOUCH = """rule all:
    input: [f"out/{{i}}" for i in range({n_jobs})]

rule one:
    output: "out/{{i}}"
    shell: "touch {{output}}"
"""


def dispatch(arguments: argparse.Namespace) -> int:
    """Time a run of N results of a stage that does nothing, in Snakemake's process and in others.

    Beside it: plain Snakemake with as many shell rules that touch a file. Planning and start count too.
    """
    from benchmark_record import record

    print(
        f"{'results':>8} {'light, s each':>14} {'process, s each':>16} {'plain touch, s each':>20}",
        flush=True,
    )
    seconds: list[list[float]] = [[], [], []]
    for n_jobs in arguments.jobs:
        for taken, stages in zip(seconds, (LIGHT, OWN_PROCESS, None), strict=True):
            with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
                run = partial(_ours, stages=stages) if stages else _touch
                taken.append(run(n_jobs, Path(folder)))
        light, process, touch = (taken[-1] / n_jobs for taken in seconds)
        print(f"{n_jobs:>8} {light:>14.4f} {process:>16.4f} {touch:>20.4f}", flush=True)
        sides = seconds[0][-1], seconds[2][-1]
        record(arguments.record, "dispatch", "light results", n_jobs, *sides, "plain touch rules")
    if len(arguments.jobs) > 1:
        slopes = [np.polyfit(np.log(arguments.jobs), np.log(taken), 1)[0] for taken in seconds]
        print("growth: seconds ~ results^" + ", ^".join(f"{slope:.2f}" for slope in slopes))
    return 0


def _ours(n_jobs: int, folder: Path, stages: tuple[str, ...]) -> float:
    """Return the wall seconds of a run in which only these stages and the sweep's ends are missing."""
    project = make_project(folder / "assay")
    for stage in (*stages, *ENDS):
        (project.root / "pipeline" / "stages" / f"{stage}.py").write_text(TRIVIAL)
    varied = "unit.seed" if stages == OWN_PROCESS else "sampler.seed"
    sweep = ["layer=blocks.6", "explainer=random", f"{varied}=range(0,{n_jobs})", "tracking=none"]
    own = [sys.executable, str(Path(__file__).resolve()), "pretend", ",".join((*stages, *ENDS))]
    measured([*own, str(project.root), *sweep], project.root)
    return measured(
        [sys.executable, "-m", "pipeline.cli", "run", f"sweep={SWEEP}", *sweep], project.root
    ).wall


def _touch(n_jobs: int, folder: Path) -> float:
    (folder / "Snakefile").write_text(TOUCH.format(n_jobs=n_jobs))
    command = ["-m", "snakemake", "--cores", "2", "--scheduler", "greedy", "--nolock", "--quiet", "all"]
    return measured([sys.executable, *command], folder).wall


def add_planning(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `planning`."""
    parser.add_argument("--points", type=int, nargs="+", default=[10, 100, 1000, 20_000])
    parser.add_argument("--dvc", help="the dvc command of another environment, to time beside it")
    parser.add_argument("--folder", type=Path, help="where the projects are made (default: the system's)")
    parser.set_defaults(run=planning)


def add_dispatch(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `dispatch`."""
    parser.add_argument("--jobs", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--folder", type=Path, help="where the projects are made (default: the system's)")
    parser.set_defaults(run=dispatch)


def main(arguments: Sequence[str]) -> None:
    """Do what a measured process does: `pretend MISSING_STAGES PROJECT OVERRIDES`, or `KIND N`."""
    kind, what, *rest = arguments
    if kind == "pretend":
        pretend(Project(Path(rest[0])), rest[1:], set(what.split(",")))
    elif kind != "nothing":
        compose(kind, int(what))


if __name__ == "__main__":
    main(sys.argv[1:])
