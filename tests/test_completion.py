"""What the shell offers, as a shell asks for it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def offered(words: str, folder: Path = ROOT) -> list[str]:
    code = "from pipeline.cli import cli; cli(prog_name='assay')"
    asked = {"_ASSAY_COMPLETE": "bash_complete", "COMP_WORDS": words, "PYTHONPATH": str(ROOT)}
    asked["COMP_CWORD"] = str(len(words.split(" ")) - 1)
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env=os.environ | asked,
        capture_output=True,
        text=True,
        check=False,
    )
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("assay run sweep=vlm", ["sweep=vlm_demo"]),
        ("assay plan attribution=gra", ["attribution=grad_rollout", "attribution=gradcam"]),
        ("assay report sw", ["sweep="]),
        ("assay run nothing=", []),
    ],
)
def test_sweeps_groups_and_choices_are_offered(words: str, expected: list[str]) -> None:
    assert offered(words) == expected


def test_outside_a_project_nothing_is_offered(tmp_path: Path) -> None:
    assert offered("assay run sweep=", tmp_path) == []
