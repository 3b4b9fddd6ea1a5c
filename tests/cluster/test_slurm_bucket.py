"""Slurm's jobs fetch from a bucket and upload to it: the environment alone tells them of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from local_s3 import new_bucket, serving
from local_slurm import fit_profile
from workflow_project import TinyProject, copy_project, fill

from pipeline.plan.bucket import Bucket

pytestmark = pytest.mark.long


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with serving() as address:
        yield new_bucket(monkeypatch, address)


def test_jobs_of_slurm_fetch_from_a_bucket_and_upload(copy: TinyProject, bucket: str, tmp_path: Path) -> None:
    copy.run_here("run", "sweep=light")
    cluster = TinyProject(fill(copy_project(tmp_path / "cluster")))
    fit_profile(cluster.root)
    before = {name for name in Bucket(bucket).list("") if name.endswith("meta.json")}
    assert "all 4 points are there" in cluster.run(
        "run", "sweep=light", "stats.confidence=0.9", "--profile", "slurm"
    )
    made = {name for name in Bucket(bucket).list("") if name.endswith("meta.json")} - before
    assert {name.split("/")[0] for name in made} == {"comparison", "report"}
    assert list(cluster.root.glob("results/scoring/k*"))
    assert copy.to_run("stats.confidence=0.9", sweep="light") == {}
