"""A Kubernetes Job for each job of Snakemake, through kubectl.

Snakemake's plugin cluster-generic calls `python -m pipeline.kubernetes_jobs submit TEMPLATE SCRIPT`, which
prints the new Job's name, and `... status NAME`, which prints running, success or failed. What is left when a
run ends is deleted by `assay run` itself: the plugin would give a cancel command 2 s, and does not tell it of
jobs that are being looked at just then.

The namespace is kubectl's own: in a pod, that of its service account.
"""

import hashlib
import json
import re
import secrets
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from pipeline.errors import AssayError
from pipeline.interrupts import STOPPED

PATIENCE = 900
"""Seconds without an answer of the cluster after which a run stops; its jobs work on."""
PAUSES = (2, 5, 10, 20, 40)
"""Seconds between tries to submit."""
BUSY = ("ServiceUnavailable", "Timeout", "TooManyRequests", "InternalError")
"""Answers of the cluster after which another try may help."""
SILENT = Path(".snakemake/kubernetes-silent")
"""Is there while the cluster does not answer; its time says since when."""
GPU = "nvidia.com/gpu"
PLAN, PROJECT, STAGE = "assay/plan", "assay/project", "assay/stage"
"""Labels of each Job."""


class KubectlError(AssayError):
    """kubectl failed: it is not there, the cluster did not answer, or it refused."""


@dataclass(frozen=True)
class Asked:
    """What Snakemake asks for a job: `name` is its stage or group, memory in MB, time in seconds."""

    name: str
    plan: str
    threads: int
    memory: int
    seconds: int
    gpus: int


def read_script(path: Path) -> Asked:
    """Read what a job script of Snakemake asks for; AssayError where it does not say."""
    text = path.read_text(encoding="utf-8")
    properties = re.search(r"^# properties = (.*)$", text, re.MULTILINE)
    plan = re.search(r"/\.plans/([^/\s'\"]+)\.json", text)
    if properties is None or plan is None:
        raise AssayError(f"{path} names no properties and no plan: it must be a job script of Snakemake")
    found = json.loads(properties[1])
    resources = found["resources"]
    return Asked(
        name=found.get("rule") or found["groupid"],
        plan=plan[1],
        threads=int(found["threads"]),
        memory=int(resources["mem_mb"]),
        seconds=60 * int(resources["runtime"]),
        gpus=int(resources.get("gpu", 0)),
    )


def read_template(path: Path) -> dict[str, Any]:
    """Read the manifest that all jobs begin with; AssayError where no pod can be made of it."""
    try:
        job: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
        _container(job)["volumeMounts"], _pod(job)["volumes"]
    except (OSError, yaml.YAMLError, KeyError, IndexError, TypeError) as error:
        what = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise AssayError(
            f"{path} is no manifest of a Job with a container, volumeMounts and volumes ({what}): "
            "begin with profiles/kubernetes/job.yaml"
        ) from None
    if "namespace" in job.get("metadata", {}):
        raise AssayError(
            f"{path}: metadata.namespace: jobs go to kubectl's own namespace: take the line away, and "
            "kubectl config set-context --current --namespace=NAME"
        )
    return job


def _pod(job: Mapping[str, Any]) -> dict[str, Any]:
    pod: dict[str, Any] = job["spec"]["template"]["spec"]
    return pod


def _container(job: Mapping[str, Any]) -> dict[str, Any]:
    container: dict[str, Any] = _pod(job)["containers"][0]
    return container


def write_manifest(template: Path, script: Path, root: Path) -> dict[str, Any]:
    """Return the manifest of the Job that runs a job script in the project's folder.

    AssayError where the template mounts no volume there.
    """
    job, asked = read_template(template), read_script(script)
    paths = [Path(mount["mountPath"]) for mount in _container(job)["volumeMounts"]]
    if not any(root.is_relative_to(path) for path in paths):
        raise AssayError(
            f"{template}: no volume is mounted at {root} or above it ({', '.join(map(str, paths))}): "
            "the project must lie on the volume, at the same path here and in the pods"
        )
    name = re.sub(r"[^a-z0-9]+", "-", f"assay-{asked.name}".lower())[:48].strip("-")
    labels = {PLAN: label(asked.plan), PROJECT: project_label(job, root), STAGE: label(asked.name)}
    for metadata in (job.setdefault("metadata", {}), job["spec"]["template"].setdefault("metadata", {})):
        metadata["labels"] = metadata.get("labels", {}) | labels
    job["metadata"]["name"] = f"{name}-{secrets.token_hex(4)}"
    _pod(job)["activeDeadlineSeconds"] = asked.seconds  # of the pod: its wait for a node does not count
    _container(job).update(command=["/bin/sh", str(script)], workingDir=str(root))
    _ask(_container(job).setdefault("resources", {}), asked)
    return job


def _ask(resources: dict[str, Any], asked: Asked) -> None:
    """Set what a container asks for and may use; a GPU, of which it may use what it asks for, is a limit."""
    memory = f"{asked.memory}M"
    gpus = {GPU: str(asked.gpus)} if asked.gpus else {}
    resources["requests"] = resources.get("requests", {}) | {"cpu": str(asked.threads), "memory": memory}
    resources["limits"] = resources.get("limits", {}) | {"memory": memory} | gpus


def label(text: str) -> str:
    """Return a text as Kubernetes takes it for the value of a label: its last 63 characters, none unusual."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", text)[-63:].strip("._-")


def project_label(job: Mapping[str, Any], root: Path) -> str:
    """Name a project among those of a namespace: by its volumes' claims, and its folder there."""
    volumes = [each.get("persistentVolumeClaim") for each in _pod(job)["volumes"]]
    claims = [claim["claimName"] for claim in volumes if claim]
    return hashlib.sha256(json.dumps([sorted(claims), str(root)]).encode()).hexdigest()[:16]


def submit(template: Path, script: Path) -> str:
    """Create the Job that runs a script; return its name; KubectlError where the cluster refuses it."""
    job = write_manifest(template, script, Path.cwd())
    for pause in (*PAUSES, None):
        try:
            _kubectl("create", "-f", "-", stdin=json.dumps(job))
        except KubectlError as error:
            if "(AlreadyExists)" in str(error):  # an earlier try came through, its answer did not
                break
            if pause is None or not _may_pass(str(error)):
                raise
            time.sleep(pause)
        else:
            break
    SILENT.unlink(missing_ok=True)
    return str(job["metadata"]["name"])


def _may_pass(words: str) -> bool:
    return "Error from server" not in words or any(f"({reason})" in words for reason in BUSY)


def status(name: str) -> str:
    """Return running, success or failed, and say on stderr why a Job failed.

    A cluster that does not answer leaves a Job running, for as long as PATIENCE; then KubectlError.
    """
    try:
        said = _kubectl("get", "job", name, "--ignore-not-found", "-o", "json")
    except KubectlError as error:
        _wait_on(error)
        return "running"
    SILENT.unlink(missing_ok=True)
    if not said.strip():
        print(f"job {name} is not there: it was deleted", file=sys.stderr)
        return "failed"
    ended = _ended(json.loads(said))
    if ended == "Failed":
        print(f"job {name} failed: {_reason(name)}", file=sys.stderr)
    return {"Complete": "success", "Failed": "failed", None: "running"}[ended]


def _wait_on(error: KubectlError) -> None:
    """Note that the cluster does not answer; raise the error where it has not for long."""
    print(error, file=sys.stderr)
    if not SILENT.exists():
        SILENT.parent.mkdir(exist_ok=True)
        SILENT.touch()
    if time.time() - SILENT.stat().st_mtime > PATIENCE:
        raise error


def _ended(job: Mapping[str, Any]) -> str | None:
    """Return how a Job ended, Complete or Failed, None while it has not."""
    true = {each["type"] for each in job.get("status", {}).get("conditions", []) if each["status"] == "True"}
    return next((how for how in ("Complete", "Failed") if how in true), None)


def _reason(name: str) -> str:
    """Say why a Job's pod ended (OOMKilled, DeadlineExceeded, Evicted, Error), and what it printed last."""
    try:
        pods = json.loads(_kubectl("get", "pods", "-l", f"job-name={name}", "-o", "json"))["items"]
        printed = _kubectl("logs", f"job/{name}", "--tail=20")
    except KubectlError as error:
        return str(error)
    found = [pod["status"].get("reason") for pod in pods]
    for pod in pods:
        states = [each["state"].get("terminated", {}) for each in pod["status"].get("containerStatuses", [])]
        found += [state.get("reason") for state in states]
    return f"{', '.join(filter(None, found)) or 'its pod is gone'}\n{printed}"


def left_in_project(root: Path, template: Path) -> list[str]:
    """Return the names of a project's Jobs that have not ended; KubectlError where nobody can tell."""
    return _left(f"{PROJECT}={project_label(read_template(root / template), root)}")


def stop(plan: Path) -> None:
    """Delete a plan's Jobs that have not ended, and what its pods remembered; say so where that fails."""
    selector = f"{PLAN}={label(plan.stem)}"
    try:
        if names := _left(selector):
            _kubectl("delete", "job", *names, "--wait=false")
    except KubectlError as error:
        print(f"{error}\nJobs may be left; to stop them: kubectl delete job -l {selector}", file=sys.stderr)
    for memory in plan.parents[1].glob(".*.assay-*.sqlite*"):  # a pod is a machine of its own, seen once
        memory.unlink(missing_ok=True)


def _left(selector: str) -> list[str]:
    jobs = json.loads(_kubectl("get", "jobs", "-l", selector, "-o", "json"))["items"]
    return [job["metadata"]["name"] for job in jobs if _ended(job) is None]


def _kubectl(*words: str, stdin: str | None = None) -> str:
    """Return what kubectl prints; raises KubectlError with its own words."""
    command = ["kubectl", "--request-timeout=20s", *words]
    try:
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
    except OSError as error:
        raise KubectlError(
            f"kubectl: {error.strerror}: --profile kubernetes needs it on the PATH, as in the image"
        ) from None
    if done.returncode:
        raise KubectlError(f"kubectl {' '.join(words)}: {' '.join(done.stderr.split())}")
    return done.stdout


def main(arguments: Sequence[str]) -> None:
    """Do what Snakemake's plugin asks for; its log holds what goes to stderr."""
    try:
        match arguments:
            case ["submit", template, script]:
                print(submit(Path(template), Path(script)))
            case ["status", name]:
                print(status(name))
            case _:
                sys.exit("python -m pipeline.kubernetes_jobs submit TEMPLATE SCRIPT, or status NAME")
    except AssayError as error:
        sys.exit(f"assay: {error}")
    except KeyboardInterrupt:  # Ctrl-C reaches us too, and Snakemake, which asked, ends by itself
        if arguments[0] != "status":
            sys.exit(STOPPED)
        print("running")


if __name__ == "__main__":
    main(sys.argv[1:])
