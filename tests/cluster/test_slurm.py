"""Sweeps through a real Slurm: the same bytes, through cancelled jobs, lost nodes and dead runs."""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from local_slurm import fit_profile
from workflow_project import TinyProject, copy_project, fill

pytestmark = pytest.mark.long
LIMIT = 900
"""Seconds that a run may take here."""


def slurm_says(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def jobs_of(project: TinyProject) -> list[dict[str, str]]:
    """Return what Slurm knows of the project's jobs, oldest first, those that ended too."""
    lines = slurm_says("scontrol", "show", "job", "--oneliner").splitlines()
    rows = [dict(word.partition("=")[::2] for word in line.split() if "=" in word) for line in lines]
    mine = [row for row in rows if row.get("WorkDir") == str(project.root)]
    return sorted(mine, key=lambda row: int(row["JobId"]))


def in_queue(project: TinyProject) -> list[dict[str, str]]:
    return [job for job in jobs_of(project) if job["JobState"] in ("PENDING", "RUNNING", "COMPLETING")]


def asks_gpu(job: dict[str, str]) -> bool:
    return "gpu" in job.get("TresPerJob", "")


def megabytes(job: dict[str, str]) -> float:
    number, unit = re.fullmatch(r"([\d.]+)([MG])", job["MinMemoryNode"]).groups()
    return float(number) * {"M": 1, "G": 1024}[unit]


def minutes(job: dict[str, str]) -> int:
    days, _, clock = job["TimeLimit"].rpartition("-")
    hours, mins, _ = map(int, clock.split(":"))
    return int(days or 0) * 1440 + hours * 60 + mins


def waited_for(find: Callable[[], object], what: str) -> object:
    until = time.monotonic() + LIMIT
    while time.monotonic() < until:
        if found := find():
            return found
        time.sleep(0.3)
    raise AssertionError(f"no {what} within {LIMIT} s")


@contextmanager
def started(project: TinyProject, *overrides: str) -> Iterator["subprocess.Popen[str]"]:
    """Have a run with Slurm under way within the block."""
    try:
        with project.started("run", "sweep=light", *overrides, "--profile", "slurm") as process:
            yield process
    finally:
        if left := [job["JobId"] for job in in_queue(project)]:
            slurm_says("scancel", *left)


def ended(process: "subprocess.Popen[str]", project: TinyProject, code: int = 0) -> str:
    printed = process.communicate(timeout=LIMIT)[0]
    assert process.returncode == code, printed + project.logs()
    return printed


def running_job(project: TinyProject, fits: Callable[[dict[str, str]], bool]) -> dict[str, str]:
    found = waited_for(
        lambda: [job for job in jobs_of(project) if job["JobState"] == "RUNNING" and fits(job)], "running job"
    )
    return found[0]


def without_activations(project: TinyProject) -> TinyProject:
    """Take away what makes the next run compute on a (pretended) GPU."""
    shutil.rmtree(project.root / "results" / "activations")
    return project


@pytest.fixture(scope="session")
def other_units(local: TinyProject, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The tables of another draw of units, made without Slurm."""
    project = local.copy_to(tmp_path_factory.mktemp("other") / "assay")
    project.run("run", "sweep=light", "unit.seed=5")
    return project.tables("light")


def test_a_sweep_asks_for_what_the_table_says_and_gives_the_bytes_of_a_local_run(
    local: TinyProject, tmp_path: Path
) -> None:
    project = TinyProject(fill(copy_project(tmp_path / "assay")))
    fit_profile(project.root)
    with started(project) as process:
        printed = ended(process, project)
    assert "report done (10 of 10 stages)" in printed
    assert project.tables("light") == local.tables("light")
    assert in_queue(project) == []
    jobs = jobs_of(project)
    assert len(jobs) == 4  # light stages before and after the model, the model, the ends
    (model,) = [job for job in jobs if asks_gpu(job)]
    assert model["TresPerJob"] in ("gres:gpu:1", "gres/gpu:1")
    (plan,) = (project.root / "results" / ".plans").glob("*/requests.json")
    (asked,) = [row for row in json.loads(plan.read_text()).values() if row["gpu"]]
    assert (megabytes(model), minutes(model)) == (asked["memory"], asked["minutes"])


def test_a_job_that_died_is_tried_again_with_twice_the_memory_and_time(
    copy: TinyProject, other_units: dict[str, bytes]
) -> None:
    with started(without_activations(copy), "unit.seed=5") as process:
        first = running_job(copy, asks_gpu)
        slurm_says("scancel", first["JobId"])
        ended(process, copy)
    _, second = [job for job in jobs_of(copy) if asks_gpu(job)]
    assert megabytes(second) == 2 * megabytes(first)
    assert minutes(second) == 2 * minutes(first)
    assert copy.tables("light") == other_units


def test_a_run_survives_a_node_that_is_drained_and_goes_down(
    copy: TinyProject, other_units: dict[str, bytes]
) -> None:
    with started(without_activations(copy), "unit.seed=5") as process:
        node = running_job(copy, asks_gpu)["NodeList"]
        slurm_says("scontrol", "update", f"nodename={node}", "state=drain", "reason=test")
        slurm_says("scontrol", "update", f"nodename={node}", "state=down", "reason=test")
        try:
            ended(process, copy)
        finally:
            slurm_says("scontrol", "update", f"nodename={node}", "state=resume")
    assert {job["NodeList"] for job in jobs_of(copy) if job["JobState"] == "COMPLETED"} != {node}
    assert copy.tables("light") == other_units


def test_after_a_kill_the_next_run_ends_well_beside_the_jobs_that_were_left(
    copy: TinyProject, other_units: dict[str, bytes]
) -> None:
    with started(without_activations(copy), "unit.seed=5") as process:
        left = running_job(copy, asks_gpu)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert left["JobId"] in [job["JobId"] for job in in_queue(copy)]
        with started(copy, "unit.seed=5") as second:
            printed = ended(second, copy)
        assert f"scancel {left['JobId']}" in printed
        waited_for(lambda: not in_queue(copy), "empty queue")
    assert copy.tables("light") == other_units
    assert copy.to_run("unit.seed=5", sweep="light") == {}
    assert not list(copy.root.glob("results/*/.k*"))
    assert "0 damaged" in copy.run("verify")


def interrupt(process: "subprocess.Popen[str]") -> None:
    os.killpg(process.pid, signal.SIGINT)  # as a terminal's Ctrl-C does


@pytest.mark.parametrize("stop", [interrupt, subprocess.Popen.terminate])
def test_a_stopped_run_cancels_its_jobs(copy: TinyProject, stop: Callable[..., None]) -> None:
    with started(copy, "unit.seed=5") as process:
        running_job(copy, lambda _: True)
        stop(process)
        assert "stopped after 0 of" in ended(process, copy, code=130)
        assert not [job for job in in_queue(copy) if job["JobState"] != "COMPLETING"]
    assert {job["JobState"] for job in jobs_of(copy)} == {"CANCELLED"}
    assert copy.to_run("unit.seed=5", sweep="light") != {}
