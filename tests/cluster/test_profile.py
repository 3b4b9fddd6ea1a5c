"""profiles/slurm says what a run through Slurm needs; no Slurm is needed to look."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from workflow_project import ROOT, TinyProject, copy_project, fill

from pipeline.cli import cli, split_options
from pipeline.errors import AssayError
from pipeline.plan.project import Project
from pipeline.profiles import read_way

SNAKEMAKE = (sys.executable, "-m", "snakemake")
PROFILES = sorted(path.name for path in (ROOT / "profiles").iterdir())


def settings(profile: str) -> dict[str, object]:
    return yaml.safe_load((ROOT / "profiles" / profile / "config.yaml").read_text())


@pytest.mark.parametrize("profile", PROFILES)
def test_every_profile_leaves_to_assay_what_must_run(profile: str) -> None:
    """All that the default profile says but the cores, in each."""
    found = settings(profile)
    assert {key: found.get(key) for key in settings("default")} == {
        **settings("default"),
        "cores": found["cores"],
    }


def test_the_slurm_profile_retries_groups_and_waits_for_a_shared_drive() -> None:
    found = settings("slurm")
    assert found["executor"] == "slurm"
    assert found["retries"] >= 2
    assert found["jobs"] >= 1
    assert found["cores"] >= 1  # else a group wider than a node waits for ever
    assert found["latency-wait"] >= 30
    assert "light0=4" in found["group-components"]
    assert "slurm-array-jobs" not in found  # arrays stall where fewer jobs may run than are ready


def test_a_dry_run_with_the_profile_groups_light_stages_and_keeps_the_model_apart(tmp_path: Path) -> None:
    project = TinyProject(fill(copy_project(tmp_path / "assay")))
    done = subprocess.run(
        [*SNAKEMAKE, "--workflow-profile", "profiles/slurm", "-n", "--config", "sweep=light"],
        cwd=project.root,
        env=project.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    printed = done.stdout + done.stderr
    assert done.returncode == 0, printed
    groups = re.findall(r"Group job (?:light\d|ends).*\n((?:    .*\n|\n)*)", printed)
    held = [sorted(re.findall(r"^    rule (\w+):", text, re.MULTILINE)) for text in groups]
    assert sorted(held) == [
        ["comparison", "report"],
        ["explanations", "gallery", "scoring", "units"],
        ["images", "labels", "splits"],
    ]
    (model,) = re.findall(r"^rule activations:\n((?:    .*\n)*)", printed, re.MULTILINE)
    assert "gpu=1" in model and "mem_mb=8000" in model


def test_no_other_profile_is_laid_over_the_one_that_was_chosen(tmp_path: Path) -> None:
    """Snakemake takes profiles/default as well, and lets it win, unless it is told not to."""
    for name, cores in {"default": 2, "mine": 1}.items():
        (tmp_path / "profiles" / name).mkdir(parents=True)
        (tmp_path / "profiles" / name / "config.yaml").write_text(f"cores: {cores}\n")
    (tmp_path / "Snakefile").write_text("rule all:\n    run:\n        pass\n")
    words = read_way(Project(tmp_path), "mine", None, ()).arguments
    done = subprocess.run([*SNAKEMAKE, *words], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "Provided cores: 1" in done.stderr


@pytest.mark.parametrize(
    ("settings_", "options", "cluster"),
    [
        ({}, (), None),
        ({"executor": "slurm"}, (), "slurm"),
        ({"executor": "slurm"}, ("--executor", "local"), None),
        ({}, ("-e", "kubernetes"), "kubernetes"),
    ],
)
def test_the_executor_is_the_last_one_named(tmp_path: Path, settings_, options, cluster) -> None:
    folder = tmp_path / "profiles" / "mine"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(yaml.safe_dump(settings_))
    assert read_way(Project(tmp_path), "mine", None, options).cluster == cluster


def test_a_profile_that_is_no_yaml_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "profiles" / "mine"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text("cores: [2")
    with pytest.raises(AssayError, match=r"profiles/mine/config\.yaml: .*line 1"):
        read_way(Project(tmp_path), "mine", None, ())


def test_what_follows_two_dashes_is_for_snakemake() -> None:
    words = ("sweep=demo", "layer=a,b", "--default-resources", "slurm_account=mine")
    assert split_options(words) == (words[:2], words[2:])
    assert split_options(words[:2]) == (words[:2], ())
    assert "--config" in CliRunner().invoke(cli, ["run", "sweep=demo", "--config", "a=b"]).output
