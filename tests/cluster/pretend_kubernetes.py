"""A kubectl that keeps Jobs in a folder and runs their commands on this machine: a cluster for tests.

It knows what assay calls: create, get, logs, delete. A Job's command runs with the environment of its
manifest and of an image that holds this Python, in a session of its own, as a pod would. Files say what
goes wrong: `kill` holds part of a Job's name, and the next such Job is killed for its memory; while `down` is
there the cluster does not answer; while `hold` is there, Jobs wait for a node.
"""

import json
import os
import shlex
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

VARIABLE = "PRETEND_KUBERNETES"
"""Names the folder."""


class PretendCluster:
    """The folder of Jobs, as tests see it; `bin` belongs on the PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.bin = folder, folder / "bin"

    def begin(self) -> "PretendCluster":
        """Make the folder, and the command `kubectl`."""
        self.bin.mkdir(parents=True)
        command = self.bin / "kubectl"
        words = [sys.executable, "-P", str(Path(__file__).resolve())]
        command.write_text(f'#!/bin/sh\nexport {VARIABLE}="{self.folder}"\nexec {shlex.join(words)} "$@"\n')
        command.chmod(0o755)
        return self

    @property
    def jobs(self) -> list[dict[str, Any]]:
        """All manifests that were created, oldest first."""
        return [json.loads(path.read_text()) for path in sorted(self.folder.glob("*.job"), key=_created)]

    def of(self, stage: str) -> list[dict[str, Any]]:
        """The manifests of one stage or group."""
        return [job for job in self.jobs if job["metadata"]["labels"]["assay/stage"] == stage]

    @property
    def at_work(self) -> list[str]:
        """Names of Jobs that have neither ended nor been deleted."""
        return [path.stem for path in self.folder.glob("*.job") if not path.with_suffix(".end").exists()]

    def say(self, file: str, text: str = "") -> None:
        """Write one of the files that say what goes wrong."""
        (self.folder / file).write_text(text)

    def end(self) -> None:
        """Kill what is at work."""
        for name in self.at_work:
            _kill(self.folder / name)


def fit_profile(root: Path) -> None:
    """Fit profiles/kubernetes to a project that lies elsewhere, with quick looks at its jobs."""
    job = root / "profiles" / "kubernetes" / "job.yaml"
    manifest = yaml.safe_load(job.read_text())
    (container,) = manifest["spec"]["template"]["spec"]["containers"]
    container["volumeMounts"][0]["mountPath"] = str(root)
    container["env"][0]["value"] = str(root / ".home")
    job.write_text(yaml.safe_dump(manifest))
    config = root / "profiles" / "kubernetes" / "config.yaml"
    text = config.read_text().replace("seconds-between-status-checks: 10", "seconds-between-status-checks: 1")
    config.write_text(text.replace("latency-wait: 60", "latency-wait: 5"))


def _created(path: Path) -> int:
    return path.stat().st_mtime_ns


def _kill(job: Path) -> None:
    with suppress(FileNotFoundError, ProcessLookupError):
        os.killpg(int(job.with_suffix(".pid").read_text()), signal.SIGKILL)


def main(folder: Path, words: list[str]) -> None:
    if (folder / "down").exists():
        sys.exit("Unable to connect to the server: dial tcp 10.0.0.1:443: i/o timeout")
    match [word for word in words if not word.startswith("--")]:
        case ["create", "-f", "-"]:
            _create(folder, json.load(sys.stdin))
        case ["get", "job", name, "-o", "json"]:
            path = folder / f"{name}.job"
            print(json.dumps(_told(path)) if path.exists() else "", end="")
        case ["get", "jobs", "-l", selector, "-o", "json"]:
            jobs = [_told(path) for path in sorted(folder.glob("*.job"))]
            print(json.dumps({"items": [job for job in jobs if _fits(job, selector)]}))
        case ["get", "pods", "-l", selector, "-o", "json"]:
            print(json.dumps({"items": [_pod(folder / selector.removeprefix("job-name="))]}))
        case ["logs", job]:
            print((folder / f"{job.removeprefix('job/')}.log").read_text(), end="")
        case ["delete", "job", *names]:
            for name in names:
                _kill(folder / name)
                (folder / f"{name}.job").rename(folder / f"{name}.deleted")
        case others:
            sys.exit(f"error: unknown command {others}")


def _create(folder: Path, job: dict[str, Any]) -> None:
    path = folder / f"{job['metadata']['name']}.job"
    if path.exists():
        sys.exit(f'Error from server (AlreadyExists): jobs.batch "{path.stem}" already exists')
    path.write_text(json.dumps(job))
    log, kill = path.with_suffix(".log"), folder / "kill"
    log.touch()
    if kill.exists() and kill.read_text() in path.stem:
        kill.unlink()
        path.with_suffix(".end").write_text("OOMKilled")
    elif not (folder / "hold").exists():
        _start(job, path, log)
    print(f"job.batch/{path.stem} created")


def _start(job: dict[str, Any], path: Path, log: Path) -> None:
    (container,) = job["spec"]["template"]["spec"]["containers"]
    image = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "OMP_NUM_THREADS": "1"}
    command = f"{shlex.join(container['command'])}; echo $? > {shlex.quote(str(path.with_suffix('.end')))}"
    with log.open("w") as stream:
        process = subprocess.Popen(
            ["/bin/sh", "-c", command],
            cwd=container["workingDir"],
            env=image | {each["name"]: each["value"] for each in container["env"]},
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
        )
    path.with_suffix(".pid").write_text(str(process.pid))


def _told(path: Path) -> dict[str, Any]:
    """Return a Job with the status that a cluster would give it."""
    job: dict[str, Any] = json.loads(path.read_text())
    end = path.with_suffix(".end")
    if not end.exists() or not (how := end.read_text().strip()):
        return job | {"status": {"active": 1}}
    kind = "Complete" if how == "0" else "Failed"
    return job | {"status": {"conditions": [{"type": kind, "status": "True"}]}}


def _fits(job: dict[str, Any], selector: str) -> bool:
    name, _, value = selector.partition("=")
    return job["metadata"]["labels"].get(name) == value


def _pod(job: Path) -> dict[str, Any]:
    how = job.with_suffix(".end").read_text().strip()
    reason = how if not how.isdigit() else "Error"
    return {
        "status": {"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"reason": reason}}}]}
    }


if __name__ == "__main__":
    main(Path(os.environ[VARIABLE]), sys.argv[1:])
