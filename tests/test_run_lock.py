"""One run at a time: who waits for whom, and what is said."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.errors import AssayError
from pipeline.plan.project import Project
from pipeline.run_lock import one_run_at_a_time

HOLDS = "import os, sys; sys.stdin.read()"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def refusal(project: Project) -> str:
    with pytest.raises(AssayError) as refused, one_run_at_a_time(project, "sweep=b", wait=False):
        pass
    return str(refused.value)


def test_the_second_is_told_of_the_first(project: Project) -> None:
    with one_run_at_a_time(project, "sweep=a"):
        assert f"(sweep=a, process {os.getpid()}, since 20" in refusal(project)
    with one_run_at_a_time(project, "sweep=b", wait=False):
        pass


def test_jobs_that_outlive_their_run_hold_its_lock(project: Project) -> None:
    with one_run_at_a_time(project, "sweep=a") as lock:
        jobs = subprocess.Popen([sys.executable, "-c", HOLDS], stdin=subprocess.PIPE, pass_fds=[lock])
    try:
        label = project.results / ".lock"
        label.write_text(f"sweep=a, process {2**22 + 1}, since 2026-01-01 00:00:00")  # no such process
        assert "which was killed, but its jobs go on" in refusal(project)
    finally:
        jobs.communicate()
    with one_run_at_a_time(project, "sweep=b", wait=False):
        pass


@pytest.mark.parametrize("label", [b"", b"\xff\xfe\x00", b"x" * 100_000])
def test_a_damaged_label_stops_nobody(project: Project, label: bytes) -> None:
    with one_run_at_a_time(project, "sweep=a"):
        (project.results / ".lock").write_bytes(label)
        assert "another run is at work" in refusal(project)
        assert len(refusal(project)) < 1000
