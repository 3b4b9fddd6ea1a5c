"""Sweeps with a pod a job, on a pretended cluster: the same bytes, through killed pods and dead runs."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pretend_kubernetes import PretendCluster, fit_profile
from workflow_project import TinyProject

RUN = ("run", "sweep=light", "--profile", "kubernetes")
LIMIT = 300
"""Seconds that a run may take here."""


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PretendCluster]:
    found = PretendCluster(tmp_path / "cluster").begin()
    monkeypatch.setenv("PATH", f"{found.bin}:{os.environ['PATH']}")
    yield found
    found.end()


@pytest.fixture
def project(copy: TinyProject) -> TinyProject:
    """The built project, without the tables of its light sweep."""
    for name in ("comparison", "report", "sweeps", ".plans"):
        shutil.rmtree(copy.root / "results" / name)
    fit_profile(copy.root)
    return copy


def until_at_work(cluster: PretendCluster, process: "subprocess.Popen[str]") -> None:
    until = time.monotonic() + LIMIT
    while not cluster.at_work:
        assert process.poll() is None and time.monotonic() < until, process.communicate()[0]
        time.sleep(0.1)


def asked(job: dict[str, Any]) -> tuple[int, int, str | None]:
    """Return the memory (MB), the minutes and the GPUs of a Job."""
    pod = job["spec"]["template"]["spec"]
    limits = pod["containers"][0]["resources"]["limits"]
    memory = int(limits["memory"].removesuffix("M"))
    return memory, pod["activeDeadlineSeconds"] // 60, limits.get("nvidia.com/gpu")


def requests(project: TinyProject) -> list[dict[str, Any]]:
    """Return what the batches of the only plan ask for."""
    (path,) = (project.root / "results" / ".plans").glob("*/requests.json")
    return list(json.loads(path.read_text()).values())


def test_a_killed_pod_is_tried_again_with_twice_of_all_and_the_tables_are_those_of_a_local_run(
    built: TinyProject, project: TinyProject, cluster: PretendCluster
) -> None:
    cluster.say("kill", "assay-ends")
    printed = project.run(*RUN)
    assert "report done (2 of 2 stages)" in printed
    assert project.tables("light") == built.tables("light")
    first, second = cluster.jobs
    rows = requests(project)
    assert asked(first) == (max(row["memory"] for row in rows), sum(row["minutes"] for row in rows), None)
    assert asked(second) == (2 * asked(first)[0], 2 * asked(first)[1], None)
    (plan,) = (project.root / "results" / ".plans").glob("*.json")
    assert {job["metadata"]["labels"]["assay/plan"] for job in cluster.jobs} == {plan.stem}
    assert f"job {first['metadata']['name']} failed: OOMKilled" in project.logs()
    assert cluster.at_work == []
    assert not list(project.root.glob("results/.memory.assay-*"))


def interrupt(process: "subprocess.Popen[str]") -> None:
    os.killpg(process.pid, signal.SIGINT)  # as a terminal's Ctrl-C does


@pytest.mark.parametrize("stop", [interrupt, subprocess.Popen.terminate])
def test_a_stopped_run_deletes_its_jobs(
    project: TinyProject, cluster: PretendCluster, stop: Callable[..., None]
) -> None:
    cluster.say("hold")
    with project.started(*RUN) as process:
        until_at_work(cluster, process)
        stop(process)
        printed = process.communicate(timeout=LIMIT)[0]
    assert process.returncode == 130, printed + project.logs()
    assert "stopped after 0 of" in printed
    assert cluster.jobs == []


def test_a_cluster_that_cannot_be_asked_is_told_before_any_work(
    project: TinyProject, cluster: PretendCluster
) -> None:
    cluster.say("down")
    printed = project.run(*RUN, code=2)
    assert "assay: kubectl get jobs" in printed and "Unable to connect to the server" in printed


@pytest.mark.long
def test_a_run_ends_where_the_cluster_does_not_answer_for_long_and_its_jobs_are_named(
    project: TinyProject, cluster: PretendCluster
) -> None:
    cluster.say("hold")
    code = project.root / "pipeline" / "kubernetes_jobs.py"
    code.write_text(code.read_text().replace("PATIENCE = 900", "PATIENCE = 3"))
    with project.started(*RUN) as process:
        until_at_work(cluster, process)
        time.sleep(3)  # until Snakemake knows of the job
        cluster.say("down")
        printed = process.communicate(timeout=LIMIT)[0]
    assert process.returncode == 1, printed + project.logs()
    assert "kubectl delete job -l assay/plan=light-" in printed
    assert len(cluster.at_work) == 1


@pytest.mark.long
def test_jobs_that_a_killed_run_left_are_named_and_the_next_run_ends_well(
    built: TinyProject, project: TinyProject, cluster: PretendCluster
) -> None:
    with project.started(*RUN) as process:
        until_at_work(cluster, process)
        (left,) = cluster.at_work
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert f"kubectl delete job {left}" in project.run(*RUN)
    assert project.tables("light") == built.tables("light")
    assert project.to_run(sweep="light") == {}


@pytest.mark.long
def test_a_whole_sweep_in_pods_gives_the_bytes_of_a_local_run(
    built: TinyProject, fresh: TinyProject, cluster: PretendCluster
) -> None:
    fit_profile(fresh.root)
    cluster.say("kill", "assay-activations")
    assert "report done (10 of 10 stages)" in fresh.run(*RUN)
    assert fresh.tables("light") == built.tables("light")
    assert len(cluster.jobs) == 5  # light stages before and after the model, the model twice, the ends
    (row,) = [row for row in requests(fresh) if row["gpu"]]
    models = [asked(job) for job in cluster.of("activations")]
    assert models == [(n * row["memory"], n * row["minutes"], "1") for n in (1, 2)]
    assert [asked(job) for job in cluster.jobs if asked(job)[2]] == models
