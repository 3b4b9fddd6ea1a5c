"""A Slurm on this machine, and a project with a local run's results."""

import os
from collections.abc import Iterator
from pathlib import Path

import local_slurm
import pytest
from local_slurm import fit_profile
from workflow_project import TinyProject, copy_project, fill


@pytest.fixture(scope="session")
def slurm() -> Iterator[None]:
    """Slurm, or a skip with the reason why there is none; ASSAY_SLURM=keep leaves it running afterwards."""
    if reason := local_slurm.why_not():
        pytest.skip(reason)
    local_slurm.start()
    yield
    if os.environ.get("ASSAY_SLURM") != "keep":
        local_slurm.stop()


@pytest.fixture(scope="session")
def local(slurm: None, tmp_path_factory: pytest.TempPathFactory) -> TinyProject:
    """The light sweep, run without Slurm; nobody may change it."""
    project = TinyProject(fill(copy_project(tmp_path_factory.mktemp("local") / "assay")))
    fit_profile(project.root)
    project.run("run", "sweep=light")
    return project


@pytest.fixture
def copy(local: TinyProject, tmp_path: Path) -> TinyProject:
    """A copy of that project, results and all."""
    return local.copy_to(tmp_path / "assay")
