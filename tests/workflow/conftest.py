"""A small project of its own for each test: the real code, conf and Snakefile, tiny data and models."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from local_s3 import new_bucket, serving
from workflow_project import TinyProject, copy_project, fill


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> TinyProject:
    """The tiny and the light sweep, run once for all tests; nobody may change them.

    Workers of one test run build them once between them, and each takes a copy.
    """
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "built-once"
    with shared.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not shared.is_dir():
            building = shared.with_suffix(".building")
            shutil.rmtree(building, ignore_errors=True)
            project = TinyProject(fill(copy_project(building)))
            for sweep in ("tiny", "light"):
                project.run("run", f"sweep={sweep}", "--cores", "2")
            project.run_here("clean", "--unreachable")  # composes every sweep, for the memory of all copies
            building.rename(shared)
    return TinyProject(shared).copy_to(tmp_path_factory.mktemp("built") / "assay")


@pytest.fixture
def copy(built: TinyProject, tmp_path: Path) -> TinyProject:
    """A moved checkout of the built project, results and all."""
    return built.copy_to(tmp_path / "moved" / "elsewhere")


@pytest.fixture
def fresh(tmp_path: Path) -> TinyProject:
    """A project without results."""
    return TinyProject(fill(copy_project(tmp_path / "assay")))


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """An S3 server on loopback; its address."""
    with serving() as address:
        yield address


@pytest.fixture
def environment(s3_server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What tells a process where S3 is and who asks."""
    new_bucket(monkeypatch, s3_server)


@pytest.fixture
def bucket(s3_server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a new bucket's prefix, where results go from now on."""
    return new_bucket(monkeypatch, s3_server)


@pytest.fixture
def strict_server(s3_server: str) -> Iterator[None]:
    """The server, now refusing whom it does not know."""
    httpx.post(f"{s3_server}/moto-api/reset-auth", content=b"0")
    yield
    httpx.post(f"{s3_server}/moto-api/reset-auth", content=b"inf")
