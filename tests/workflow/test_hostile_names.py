"""No shell reads a name of the user's, and no secret of the environment is in what a run leaves."""

import subprocess
from pathlib import Path

import pytest
from conftest import copy_project
from workflow_project import TinyProject, fill

from pipeline.errors import AssayError
from pipeline.plan.sweep import expand_sweep

HOSTILE = 'it\'s a "test" $(touch pwned) `touch pwned` & {batch}; #1: x'
SECRETS = {
    "WANDB_API_KEY": "f0" * 20,
    "AWS_ACCESS_KEY_ID": "AKIAFAKEFAKEFAKEFAKE",
    "AWS_SECRET_ACCESS_KEY": "fake/aws/secret/key/0123456789",
    "AWS_SESSION_TOKEN": "fake-aws-session-token",
    "OPENAI_API_KEY": "sk-fake-openai-0123456789",
    "ASSAY_API_KEY": "fake-assay-key-0123456789",
    "HF_TOKEN": "hf_fakefakefakefakefake",
    "SNAKEMAKE_STORAGE_S3_SECRET_KEY": "fake-storage-secret-0123",
    "HTTP_PROXY": "http://user:fake-proxy-password@127.0.0.1:9",
}


@pytest.mark.parametrize(
    "name", ["../x", "a/b", "a b", "$(touch x)", "a;b", "", ".hidden", "-n", "a'b", "a\n"]
)
def test_a_sweeps_name_is_a_plain_file_name(fresh: TinyProject, name: str) -> None:
    with pytest.raises(AssayError, match="a sweep's name is letters"):
        expand_sweep(fresh.root / "conf", name, [])


@pytest.mark.parametrize(
    "value", ["$(touch pwned)", "`touch pwned`", "'; touch pwned; '", "a b", "|touch pwned"]
)
def test_a_value_that_a_shell_would_run_is_a_value(fresh: TinyProject, value: str) -> None:
    printed = fresh.run_here("plan", "sweep=light", f"layer='{value.replace(chr(39), chr(92) + chr(39))}'")
    assert "points" in printed
    assert not list(fresh.root.rglob("pwned"))


@pytest.mark.long
def test_a_run_in_a_folder_of_a_hostile_name_leaves_its_results_and_no_secret(tmp_path: Path) -> None:
    project = TinyProject(fill(copy_project(tmp_path / HOSTILE)))
    done = subprocess.run(
        project.command("run", "sweep=light", "tracking=wandb"),
        cwd=project.root,
        env=project.environment | SECRETS,
        capture_output=True,
        text=True,
        check=False,
    )
    printed = done.stdout + done.stderr
    assert done.returncode == 0, printed + project.logs()
    assert "all 4 points are there" in printed
    assert not [path for path in tmp_path.rglob("*") if path.name == "pwned"]
    assert list(project.root.glob("results/tracking/k*/**/*.wandb"))
    left = {path: path.read_bytes() for path in project.root.rglob("*") if path.is_file()}
    for name, secret in SECRETS.items():
        assert secret not in printed, name
        assert not [str(path) for path, data in left.items() if secret.encode() in data], name
