"""One run at a time: the lock of a project."""

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from pipeline.errors import AssayError
from pipeline.plan.project import Project
from pipeline.run_lock import one_run_at_a_time

HOLD = """
import sys
from pathlib import Path
from pipeline.plan.project import Project
from pipeline.run_lock import one_run_at_a_time
with one_run_at_a_time(Project(Path(sys.argv[1])), "sweep=first"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path):
    """A process that holds the lock of tmp_path until its input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None and process.stdout.readline() == b"held\n"
    yield process
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        pipe.close()


def test_a_run_that_may_not_wait_is_told_who_is_at_work(holder, tmp_path: Path) -> None:
    with pytest.raises(AssayError, match=rf"\(sweep=first, process {holder.pid}, since 20.*: wait for it"):
        ExitStack().enter_context(one_run_at_a_time(Project(tmp_path), "sweep=second", wait=False))


def test_a_run_waits_until_the_other_has_ended(holder, tmp_path: Path, monkeypatch, capsys) -> None:
    looks = []

    def end_the_other(seconds: float) -> None:
        looks.append(seconds)
        holder.stdin.close()
        holder.wait()

    monkeypatch.setattr("time.sleep", end_the_other)
    with one_run_at_a_time(Project(tmp_path), "sweep=second"):
        text = (tmp_path / "results" / ".lock").read_text()
    assert len(looks) == 1
    assert text.startswith(f"sweep=second, process {os.getpid()}, since 20")
    assert "waiting for it to end, Ctrl-C to give up" in capsys.readouterr().err


def test_a_killed_run_leaves_no_lock(holder, tmp_path: Path) -> None:
    holder.kill()
    holder.wait()
    with one_run_at_a_time(Project(tmp_path), "sweep=second", wait=False):
        pass


def test_results_that_cannot_be_made_are_named_with_the_fix(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("a file stands here")
    with pytest.raises(AssayError, match=r"results cannot be written \(File exists\): give yourself"):
        ExitStack().enter_context(one_run_at_a_time(Project(tmp_path), "sweep=one"))
