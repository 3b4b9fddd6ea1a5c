"""A sweep whose results are in a bucket: another machine reuses them; stale is what is stale on disk."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from unittest import mock

import pytest
from local_s3 import new_bucket
from test_faults import kill_whole_run, start
from test_staleness import CHANGES
from workflow_project import TinyProject, copy_project, fill, run_in_order

from pipeline.plan import fingerprint
from pipeline.plan.bucket import Bucket
from pipeline.plan.project import Project
from pipeline.plan.workflow import hand_over

PUBLISHED = {"comparison", "report"}
AT_ONCE = ([], ["loader.batch_size=7"], ["scorer.epochs=3"], ["crowd.miss=0.1"], ["stats.confidence=0.9"])
"""Rows of the staleness table that every run of the tests looks at."""
ROWS = [
    pytest.param(overrides, expected, marks=() if overrides in AT_ONCE else pytest.mark.long)
    for overrides, expected in CHANGES
]


def machine(target: Path, built: TinyProject) -> TinyProject:
    """Another machine: a checkout without results, that has composed the sweeps before (to save time)."""
    project = TinyProject(fill(copy_project(target)))
    (project.root / "results").mkdir()
    Project(project.root).memory.write_bytes(Project(built.root).memory.read_bytes())
    return project


def stages(project: TinyProject) -> set[str]:
    return {path.parent.name for path in project.root.glob("results/*/k*") if path.parent.name != "sweeps"}


def started_snakemake(project: TinyProject) -> bool:
    return (project.root / "results" / ".plans").exists()


def objects(url: str, end: str) -> list[str]:
    return [
        name for name in Bucket(url).list("") if name.endswith(end) and not name.startswith("quarantine/")
    ]


@pytest.fixture(scope="module")
def full(
    built: TinyProject, s3_server: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, TinyProject]]:
    """A bucket with the results of the tiny sweep, and a machine without any; nobody may change them."""
    base = tmp_path_factory.mktemp("full")
    first = built.copy_to(base / "first")
    with pytest.MonkeyPatch.context() as patch:
        url = new_bucket(patch, s3_server)
        assert "results that were here alone are now in" in first.run_here("run", "sweep=tiny")
        yield url, machine(base / "second", built)


@pytest.fixture
def other(built: TinyProject, tmp_path: Path) -> TinyProject:
    return machine(tmp_path / "other", built)


@pytest.mark.parametrize(
    ("overrides", "expected"), ROWS, ids=lambda v: " ".join(v) if isinstance(v, list) else ""
)
def test_a_changed_setting_reruns_on_another_machine_what_it_reruns_on_this_one(
    full: tuple[str, TinyProject], overrides: list[str], expected: dict[str, int]
) -> None:
    assert full[1].to_run(*overrides) == expected
    assert stages(full[1]) == set()


def test_another_machine_runs_nothing_and_fetches_what_it_publishes(
    built: TinyProject, full: tuple[str, TinyProject], other: TinyProject
) -> None:
    bucket = full[0]
    printed = other.run_here("run", "sweep=tiny")
    assert "all 8 points are there" in printed
    assert "are now in" not in printed
    assert not started_snakemake(other)
    assert stages(other) == PUBLISHED
    assert other.tables() == built.tables()
    key = objects(bucket, "scoring.csv")[0].split("/")[1]
    assert f"{bucket}/scoring/{key}" in other.run_here("show", key)
    assert Path(other.run_here("report", "sweep=tiny").strip()).is_file()
    assert "checked by their sizes, 0 damaged" in other.run_here("verify")


@pytest.mark.long
def test_what_another_machine_makes_is_there_for_the_first(
    copy: TinyProject, other: TinyProject, bucket: str
) -> None:
    copy.run_here("run", "sweep=light")
    changed = "stats.confidence=0.9"
    assert "all 4 points are there" in other.run_here("run", "sweep=light", changed)
    assert stages(other) >= {"scoring", "comparison", "report"}
    assert copy.to_run(changed, sweep="light") == {}
    assert f"nothing in {bucket} is deleted" in other.run_here("clean", "--intermediate", "sweep=light")
    secret = b"guarded-secret"
    for project in (copy, other):
        files = [path for path in (project.root / "results").rglob("*") if path.is_file()]
        assert not [path for path in files if secret in path.read_bytes()]


def test_a_truncated_object_is_moved_aside_and_rebuilt(
    copy: TinyProject, other: TinyProject, bucket: str
) -> None:
    copy.run_here("run", "sweep=light")
    (name,) = objects(bucket, "attributes.npy")
    before, _ = Bucket(bucket).read(name) or (b"", "")
    Bucket(bucket).write(name, before[: len(before) // 2])
    assert other.to_run(sweep="light") == {"labels": 1}
    assert f"moved to {bucket}/quarantine/labels-" in other.run_here("run", "sweep=light")
    assert Bucket(bucket).read(name)[0] == before  # type: ignore[index]
    assert other.to_run(sweep="light") == {}


@pytest.mark.long
def test_an_object_of_other_bytes_is_not_read_but_rebuilt(
    copy: TinyProject, other: TinyProject, bucket: str
) -> None:
    """Its size is right, so the plan cannot see it; the job that fetches it does, and the run replans."""
    copy.run_here("run", "sweep=light")
    name = objects(bucket, "scoring.parquet")[0]
    before, _ = Bucket(bucket).read(name) or (b"", "")
    Bucket(bucket).write(name, bytes([before[0] ^ 1]) + before[1:])
    assert other.to_run(sweep="light") == {}
    assert "all 4 points are there" in other.run_here("run", "sweep=light", "stats.confidence=0.9")
    assert Bucket(bucket).read(name)[0] == before  # type: ignore[index]


def test_credentials_that_are_refused_stop_a_run_before_any_work(
    other: TinyProject, bucket: str, strict_server: None
) -> None:
    printed = other.run_here("run", "sweep=light", code=2)
    assert f"{bucket}: " in printed
    assert "refuses (InvalidAccessKeyId)" in printed
    assert "Traceback" not in printed
    assert not started_snakemake(other)


@pytest.mark.long
def test_a_sweep_from_nothing_runs_into_the_bucket(
    built: TinyProject, fresh: TinyProject, other: TinyProject, bucket: str
) -> None:
    printed = fresh.run("run", "sweep=tiny")
    assert "all 8 points are there" in printed
    assert "are now in" not in printed  # each job put its own result there
    assert "all 8 points are there" in other.run("run", "sweep=tiny")
    assert stages(other) == PUBLISHED
    assert fresh.tables() == other.tables() == built.tables()


@pytest.mark.long
def test_two_machines_at_once_end_with_the_same_tables(
    built: TinyProject, fresh: TinyProject, other: TinyProject, bucket: str
) -> None:
    processes = [start(project, "light", subprocess.PIPE) for project in (fresh, other)]
    told = [process.communicate()[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], told
    assert fresh.tables("light") == other.tables("light") == built.tables("light")
    assert fresh.to_run(sweep="light") == other.to_run(sweep="light") == {}


@pytest.mark.long
def test_what_another_machine_made_since_the_planning_is_not_made_again(
    copy: TinyProject, other: TinyProject, bucket: str
) -> None:
    copy.run_here("run", "sweep=light")
    prepared = other.prepare("stats.confidence=0.9", sweep="light")
    assert {stage for stage, _ in prepared.status.to_run} == {"comparison", "report"}
    copy.run_here("run", "sweep=light", "stats.confidence=0.9")
    before = {name: listed.etag for name, listed in Bucket(bucket).list("").items()}
    with chdir(other.root), mock.patch.object(fingerprint, "CODE", other.root):
        run_in_order(Project(other.root), hand_over(prepared))
    assert {name: listed.etag for name, listed in Bucket(bucket).list("").items()} == before
    assert stages(other) == PUBLISHED


@pytest.mark.long
def test_a_killed_run_is_taken_up_on_another_machine(
    built: TinyProject, fresh: TinyProject, other: TinyProject, bucket: str
) -> None:
    process = start(fresh, "light")
    while not objects(bucket, "meta.json"):
        assert process.poll() is None
    kill_whole_run(process)
    other.run("run", "sweep=light")
    assert other.tables("light") == built.tables("light")
    assert other.to_run(sweep="light") == {}


@pytest.mark.long
def test_snakemake_alone_runs_into_the_bucket(fresh: TinyProject, other: TinyProject, bucket: str) -> None:
    command = [
        sys.executable,
        "-m",
        "snakemake",
        "--profile",
        "profiles/default",
        "--config",
        "sweep=light",
    ]
    done = subprocess.run(
        command, cwd=fresh.root, env=fresh.environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert other.to_run(sweep="light") == {}
