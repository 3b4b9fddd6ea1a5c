"""A job of Snakemake in Kubernetes: its manifest, its end, and a cluster that does not answer."""

import json
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from pretend_kubernetes import PretendCluster
from test_container import arguments

from pipeline import kubernetes_jobs
from pipeline.errors import AssayError
from pipeline.kubernetes_jobs import KubectlError, left_in_project, main, status, stop, submit, write_manifest
from pipeline.plan.project import Project
from pipeline.profiles import read_way

ROOT = Path(__file__).parents[2]
TEMPLATE = ROOT / "profiles" / "kubernetes" / "job.yaml"
DRIVER = list(yaml.safe_load_all((ROOT / "kubernetes" / "driver.yaml").read_text()))
PROJECT = Path("/project")
ASKED = {"mem_mb": 8000, "mem_mib": 7630, "runtime": 35, "gpu": 1}


def script(folder: Path, command: str = "true", **properties: object) -> Path:
    """Write a job script as Snakemake does."""
    found = {"type": "single", "rule": "image_embeddings", "threads": 2, "resources": ASKED} | properties
    path = folder / "snakejob.image_embeddings.3.sh"
    plan = "/project/results/.plans/paper_crowd-0123456789ab-fe12.json"
    path.write_text(f"#!/bin/sh\n# properties = {json.dumps(found)}\n{command} # --config plan={plan}\n")
    return path


def pod(job: dict[str, Any]) -> dict[str, Any]:
    return job["spec"]["template"]["spec"]


def container(job: dict[str, Any]) -> dict[str, Any]:
    (found,) = pod(job)["containers"]
    return found


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PretendCluster:
    """A cluster, from a project's folder that the shipped manifest's volume is mounted at."""
    found = PretendCluster(tmp_path / "cluster").begin()
    monkeypatch.setenv("PATH", f"{found.bin}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(kubernetes_jobs, "PAUSES", ())
    return found


@pytest.fixture
def template(tmp_path: Path) -> Path:
    path = tmp_path / "job.yaml"
    path.write_text(TEMPLATE.read_text().replace("mountPath: /project}", f"mountPath: {tmp_path}}}"))
    return path


def ended(name: str) -> str:
    until = time.monotonic() + 30
    while (found := status(name)) == "running":
        assert time.monotonic() < until
        time.sleep(0.05)
    return found


def test_a_manifest_asks_for_what_snakemake_asks_for(tmp_path: Path) -> None:
    path = script(tmp_path)
    job = write_manifest(TEMPLATE, path, PROJECT)
    assert container(job)["resources"] == {
        "requests": {"cpu": "2", "memory": "8000M"},
        "limits": {"memory": "8000M", "nvidia.com/gpu": "1"},
    }
    assert pod(job)["activeDeadlineSeconds"] == 35 * 60
    assert "activeDeadlineSeconds" not in job["spec"]  # it would count the wait for a node
    assert container(job)["command"] == ["/bin/sh", str(path)]
    assert container(job)["workingDir"] == "/project"


def test_a_job_without_a_gpu_asks_for_none_and_keeps_what_the_template_asks_for(tmp_path: Path) -> None:
    found = yaml.safe_load(TEMPLATE.read_text())
    container(found)["resources"] = {"requests": {"ephemeral-storage": "2Gi"}}
    template = tmp_path / "job.yaml"
    template.write_text(yaml.safe_dump(found))
    job = write_manifest(template, script(tmp_path, resources=ASKED | {"gpu": 0}), PROJECT)
    assert container(job)["resources"] == {
        "requests": {"ephemeral-storage": "2Gi", "cpu": "2", "memory": "8000M"},
        "limits": {"memory": "8000M"},
    }


@pytest.mark.parametrize(
    ("properties", "begins"),
    [
        ({}, "assay-image-embeddings-"),
        ({"rule": None, "type": "group", "groupid": "light0"}, "assay-light0-"),
        ({"rule": "Q" * 80 + "_"}, "assay-qqqq"),
    ],
)
def test_names_and_labels_are_such_as_kubernetes_takes(
    tmp_path: Path, properties: dict[str, object], begins: str
) -> None:
    jobs = [write_manifest(TEMPLATE, script(tmp_path, **properties), PROJECT) for _ in range(2)]
    names = [job["metadata"]["name"] for job in jobs]
    assert names[0] != names[1]
    for name in names:
        assert name.startswith(begins)
        assert re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,55}[a-z0-9])?", name)  # a pod's name has 6 letters more
    for metadata in (jobs[0]["metadata"], jobs[0]["spec"]["template"]["metadata"]):
        assert metadata["labels"]["assay/plan"] == "paper_crowd-0123456789ab-fe12"
        for value in metadata["labels"].values():
            assert re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", value)


def test_projects_on_other_volumes_or_in_other_folders_have_other_labels(tmp_path: Path) -> None:
    other = tmp_path / "job.yaml"
    other.write_text(TEMPLATE.read_text().replace("assay-work", "another-claim"))
    places = [(TEMPLATE, PROJECT), (other, PROJECT), (TEMPLATE, PROJECT / "mine")]
    jobs = [write_manifest(template, script(tmp_path), root) for template, root in places]
    assert len({job["metadata"]["labels"]["assay/project"] for job in jobs}) == 3


@pytest.mark.parametrize("name", ["profiles/kubernetes/job.yaml", "kubernetes/driver.yaml"])
def test_every_pod_is_one_that_a_strict_cluster_takes(name: str) -> None:
    job = list(yaml.safe_load_all((ROOT / name).read_text()))[-1]
    assert (job["apiVersion"], job["kind"], pod(job)["restartPolicy"]) == ("batch/v1", "Job", "Never")
    security = pod(job)["securityContext"]
    assert security["runAsNonRoot"] is True
    assert f"{security['runAsUser']}:{security['runAsGroup']}" == arguments("USER")[0]
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    volumes = {each["name"] for each in pod(job)["volumes"]}
    for each in (*pod(job)["containers"], *pod(job).get("initContainers", [])):
        assert each["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        }
        assert re.fullmatch(r"registry\.example\.org/assay:\d+\.\d+\.\d+", each["image"])
        assert {mount["name"] for mount in each["volumeMounts"]} <= volumes
        assert [env["name"] for env in each.get("env", [])] in ([], ["HOME"])  # keys come from a secret
    assert container(job)["envFrom"] == [{"secretRef": {"name": "assay-keys", "optional": True}}]


def test_a_job_is_tried_again_by_snakemake_alone_and_reaches_no_api() -> None:
    job = yaml.safe_load(TEMPLATE.read_text())
    assert job["spec"]["backoffLimit"] == 0
    assert job["spec"]["ttlSecondsAfterFinished"] >= 3600  # Snakemake must see how it ended
    assert pod(job)["automountServiceAccountToken"] is False
    assert {"name": "shared-memory", "mountPath": "/dev/shm"} in container(job)["volumeMounts"]


def test_the_driver_may_do_what_it_does_and_no_more() -> None:
    account, role, binding, job = DRIVER
    assert pod(job)["serviceAccountName"] == account["metadata"]["name"]
    assert binding["subjects"][0]["name"] == account["metadata"]["name"]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    allowed = {name: set(rule["verbs"]) for rule in role["rules"] for name in rule["resources"]}
    assert allowed == {
        "jobs": {"create", "get", "list", "delete"},
        "pods": {"get", "list"},
        "pods/log": {"get"},
    }


def test_the_driver_and_its_jobs_share_a_volume_at_one_path() -> None:
    job, template = DRIVER[-1], yaml.safe_load(TEMPLATE.read_text())
    mounts = [container(each)["volumeMounts"][0] for each in (job, template)]
    claims = [pod(each)["volumes"][0] for each in (job, template)]
    assert mounts[0] == mounts[1] == {"name": "project", "mountPath": arguments("WORKDIR")[-1]}
    assert claims[0] == claims[1]
    assert container(job)["args"][-2:] == ["--profile", "kubernetes"]
    assert any(rest.endswith("/bin/kubectl /usr/local/bin/kubectl") for rest in arguments("COPY"))


def test_the_template_that_is_asked_for_left_jobs_is_the_one_that_jobs_begin_with() -> None:
    assert read_way(Project(ROOT), "kubernetes", None, ()).pod_template == TEMPLATE.relative_to(ROOT)
    assert read_way(Project(ROOT), "kubernetes", None, ("--executor", "local")).pod_template is None
    assert read_way(Project(ROOT), "slurm", None, ()).pod_template is None


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("mountPath: /project}", "mountPath: /elsewhere}", r"no volume is mounted at /project .*/elsewhere"),
        ("metadata:", "metadata:\n  namespace: mine", r"metadata\.namespace: .* set-context"),
        ("containers:", "pods:", r"is no manifest of a Job .*containers"),
        ("apiVersion:", "apiVersion: [", r"is no manifest of a Job .*ParserError"),
    ],
)
def test_a_template_that_cannot_work_is_named_with_the_fix(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(TEMPLATE.read_text().replace(old, new, 1))
    with pytest.raises(AssayError, match=rf"mine\.yaml.*{words}"):
        write_manifest(path, script(tmp_path), PROJECT)


def test_a_script_that_is_not_snakemakes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "job.sh"
    path.write_text("#!/bin/sh\ntrue\n")
    with pytest.raises(AssayError, match=r"job\.sh names no properties"):
        write_manifest(TEMPLATE, path, PROJECT)


@pytest.mark.parametrize(("command", "end"), [("true", "success"), ("false", "failed")])
def test_a_job_ends_as_its_command_does(
    cluster: PretendCluster, template: Path, tmp_path: Path, command: str, end: str
) -> None:
    assert ended(submit(template, script(tmp_path, command))) == end


def test_a_killed_job_has_failed_and_its_reason_is_told(
    cluster: PretendCluster, template: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.say("kill", "image-embeddings")
    name = submit(template, script(tmp_path))
    assert status(name) == "failed"
    assert f"job {name} failed: OOMKilled" in capsys.readouterr().err


def test_a_deleted_job_has_failed(cluster: PretendCluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert status("assay-units-0123") == "failed"
    assert "assay-units-0123 is not there" in capsys.readouterr().err


def test_a_cluster_that_does_not_answer_leaves_a_job_running_for_a_while(
    cluster: PretendCluster, template: Path, tmp_path: Path
) -> None:
    cluster.say("hold")
    name = submit(template, script(tmp_path))
    cluster.say("down")
    assert status(name) == status(name) == "running"
    silent = tmp_path / ".snakemake" / "kubernetes-silent"
    long_ago = time.time() - kubernetes_jobs.PATIENCE - 1
    os.utime(silent, (long_ago, long_ago))
    with pytest.raises(KubectlError, match="Unable to connect"):
        status(name)
    (cluster.folder / "down").unlink()
    assert status(name) == "running"
    assert not silent.exists()


def test_a_job_that_an_unanswered_try_has_created_is_not_created_again(
    cluster: PretendCluster, template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubernetes_jobs.secrets, "token_hex", lambda _: "0123")
    cluster.say("hold")
    assert submit(template, script(tmp_path)) == submit(template, script(tmp_path))
    assert len(cluster.jobs) == 1


def test_another_try_is_made_where_it_may_help_and_only_there(
    cluster: PretendCluster, template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubernetes_jobs, "PAUSES", (1, 2))
    tries: list[float] = []
    monkeypatch.setattr(kubernetes_jobs.time, "sleep", tries.append)
    cluster.say("down")
    with pytest.raises(KubectlError, match="Unable to connect"):
        submit(template, script(tmp_path))
    assert tries == [1, 2]
    (cluster.bin / "kubectl").write_text("#!/bin/sh\necho 'Error from server (Forbidden): no' >&2; exit 1\n")
    with pytest.raises(KubectlError, match="Forbidden"):
        submit(template, script(tmp_path))
    assert tries == [1, 2]


def test_without_kubectl_the_error_says_so(
    tmp_path: Path, template: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(KubectlError, match="--profile kubernetes needs it on the PATH"):
        left_in_project(tmp_path, template)


def test_jobs_that_are_left_are_known_by_project_and_stopped_by_plan(
    cluster: PretendCluster, template: Path, tmp_path: Path
) -> None:
    ended(submit(template, script(tmp_path)))
    cluster.say("hold")
    name = submit(template, script(tmp_path))
    assert left_in_project(tmp_path, Path("job.yaml")) == [name]
    plans = tmp_path / "results" / ".plans"
    plans.mkdir(parents=True)
    memories = [plans.parent / f".memory.{machine}.sqlite" for machine in ("assay", f"{name}-x2x4x")]
    for memory in memories:
        memory.touch()
    stop(plans / "another.json")
    assert left_in_project(tmp_path, Path("job.yaml")) == [name]
    stop(plans / "paper_crowd-0123456789ab-fe12.json")
    assert left_in_project(tmp_path, Path("job.yaml")) == []
    assert len(cluster.jobs) == 1  # the one that has ended keeps its log
    assert [memory.exists() for memory in memories] == [True, False]


def test_a_command_that_is_none_says_how_it_is_called(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="submit TEMPLATE SCRIPT, or status NAME"):
        main(["cancel"])
