"""The container and its Kubernetes job, as far as they can be checked without either."""

import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
STEPS = [
    line.split(maxsplit=1)
    for line in re.sub(r"\\\n\s*", " ", DOCKERFILE).splitlines()
    if line and not line.startswith("#")
]


def arguments(step: str) -> list[str]:
    return [rest for name, rest in STEPS if name == step]


def test_a_linter_finds_nothing() -> None:
    linter = Path(sysconfig.get_path("scripts")) / "hadolint"
    done = subprocess.run([linter, ROOT / "Dockerfile"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_images_are_pinned_to_a_patch_version_of_the_python_that_is_tested() -> None:
    images = [rest.split()[0] for rest in arguments("FROM")]
    assert images
    assert all(
        re.fullmatch(r"python:3\.11\.\d+-slim-bookworm(@sha256:[0-9a-f]{64})?", image) for image in images
    )


def test_the_container_runs_as_a_user_and_nothing_is_fetched_by_address() -> None:
    assert arguments("USER") == ["10001:10001"]
    assert STEPS.index(["USER", "10001:10001"]) > max(i for i, (name, _) in enumerate(STEPS) if name == "RUN")
    assert not arguments("ADD")
    assert not re.search(r"https?://|curl|wget|git clone|sudo|chmod 777", DOCKERFILE)
    assert not re.search(r"(?i)(key|token|secret|password)\s*=", DOCKERFILE)
    assert not arguments("ARG")


def test_versions_are_those_of_the_constraints() -> None:
    installs = [part for rest in arguments("RUN") for part in rest.split("&&") if "pip install" in part]
    assert len(installs) == 2
    assert all("--constraint constraints.txt" in each or "--no-deps" in each for each in installs)


def test_what_is_copied_is_there_and_not_ignored() -> None:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    let_in = {line[1:] for line in lines if line.startswith("!")}
    assert "*" in lines
    copied = {
        name
        for rest in arguments("COPY")
        if "--from" not in rest
        for name in [part for part in rest.split() if not part.startswith("--")][:-1]
    }
    assert copied == let_in
    assert all((ROOT / name).exists() for name in copied)
    assert not {"results", "studies", "responses", ".git", "tests"} & let_in


def test_the_job_is_one_that_a_strict_cluster_takes() -> None:
    job = yaml.safe_load((ROOT / "kubernetes" / "job.yaml").read_text(encoding="utf-8"))
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert (job["apiVersion"], job["kind"], pod["restartPolicy"]) == ("batch/v1", "Job", "Never")
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert (
        f"{pod['securityContext']['runAsUser']}:{pod['securityContext']['runAsGroup']}"
        == arguments("USER")[0]
    )
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert ":latest" not in container["image"]
    assert "env" not in container
    mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    assert mounts["results"] == f"{arguments('WORKDIR')[-1]}/results"
    assert {each["name"] for each in pod["volumes"]} == set(mounts)
    assert container["args"][0] == "run"
    assert (ROOT / "conf" / "sweep" / f"{container['args'][1].removeprefix('sweep=')}.yaml").is_file()


@pytest.mark.long
def test_the_wheel_holds_what_the_command_needs_and_runs_in_a_clean_environment(tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(ROOT / "pipeline", source / "pipeline", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--wheel-dir", tmp_path, source], check=True)
    (wheel,) = tmp_path.glob("assay-*.whl")
    held = set(zipfile.ZipFile(wheel).namelist())
    package_data = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    wanted = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "pipeline").rglob("*")
        if path.is_file() and path.suffix not in (".pyc", ".pyi")
    }
    assert package_data
    assert wanted <= held, sorted(wanted - held)
    environment = tmp_path / "clean"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    site = next(environment.glob("lib/python*/site-packages"))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site, [name for name in held if not name.startswith(("/", ".."))])
    (site / "libraries.pth").write_text(sysconfig.get_path("purelib"))
    run = [environment / "bin" / "python", "-c", "from pipeline.cli import main; main()"]
    clean = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    done = subprocess.run(
        [*run, "--help"], cwd=tmp_path, env=clean, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Say whether an explanation of a vision model is any good." in done.stdout
