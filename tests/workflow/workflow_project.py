"""What the workflow tests run: a sweep of 2 layers x 4 methods over 100 small images."""

import json
import os
import shutil
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from click.testing import CliRunner

from pipeline import running
from pipeline.cli import cli
from pipeline.errors import AssayError
from pipeline.execution import run_batch
from pipeline.plan import fingerprint
from pipeline.plan.batches import Plan
from pipeline.plan.project import Project
from pipeline.plan.sweep import expand_sweep
from pipeline.plan.workflow import Prepared, finish, prepare

ROOT = Path(__file__).parents[2]
PARTS = ("Snakefile", "conf", "pipeline", "profiles", "pyproject.toml")

MODEL = """
name: timm
arch: test_efficientnet
weights: {source: random, seed: 0}
input_size: 64
pool: avg
dtype: float32
"""
SCORER = """
name: siglip_tiny
image_arch: test_resnet
image_weights: {source: random, seed: 1}
input_size: 64
width: 16
epochs: 2
batch_size: 16
learning_rate: 0.001
weight_decay: 0.1
seed: 0
calibration: {source: fitted, split: validation}
"""
CSV = """
name: csv
method: written
path: conf/texts.csv
unit_column: unit
description_column: description
layer_column: null
first_unit: 0
on_duplicate: stop
"""
COMMON = """
    - dataset=shapes
    - dataset.n_images=100
    - dataset.size=32
    - model=tiny
    - scorer=tiny
    - unit.n=4
    - sampler.n_inputs=12
    - numerics.threads=1
    - stats.n_bootstrap=50
    - layer=blocks.1,blocks.3
"""
SWEEP = f"""
- {COMMON.strip()}
    - explainer=clip_dissect,top_concept,random,written
"""
LIGHT = f"""
- {COMMON.strip()}
    - explainer=top_concept,random
    - scoring=oracle
    - tracking=none
"""
TEXTS = "unit,description\n" + "".join(
    f"{unit},{text}\n" for unit, text in enumerate(["red", "circle", "star"] * 8)
)

ALL = {
    "images": 1,
    "splits": 1,
    "labels": 1,
    "activations": 2,
    "units": 2,
    "scorer": 1,
    "image_embeddings": 1,
    "explanations": 8,
    "probabilities": 8,
    "sampling": 8,
    "crowd": 8,
    "scoring": 8,
    "gallery": 2,
    "comparison": 1,
    "report": 1,
    "tracking": 1,
}


END = {"comparison": 1, "report": 1, "tracking": 1}
FROM_SAMPLING = {"sampling": 8, "crowd": 8, "scoring": 8, **END}
FROM_UNITS = {"units": 2, "gallery": 2, "explanations": 8, "probabilities": 8, **FROM_SAMPLING}


def copy_project(target: Path) -> Path:
    """Copy what a project is made of, without results."""
    target.mkdir(parents=True)
    for part in PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, target / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / part, target / part)
    return target


def fill(root: Path) -> Path:
    """Add the tiny model, scorer, texts and sweeps to a copied project."""
    for name, text in {
        "model/tiny": MODEL,
        "scorer/tiny": SCORER,
        "explainer/written": CSV,
        "sweep/tiny": SWEEP.replace("    - ", "  - "),
        "sweep/light": LIGHT.replace("    - ", "  - "),
    }.items():
        (root / "conf" / f"{name}.yaml").write_text(text)
    (root / "conf" / "texts.csv").write_text(TEXTS)
    return root


def run_in_order(project: Project, plan: Plan, *_: object) -> None:
    """Stand in for Snakemake: run a plan's batches one after another in this process."""
    with (plan.folder / "snakemake.log").open("w") as log, redirect_stdout(log), redirect_stderr(log):
        for batch_id in plan.batches:
            run_batch(plan, batch_id)
        with suppress(AssayError):
            finish(plan)


@dataclass(frozen=True)
class TinyProject:
    """A project folder and what tests do with it."""

    root: Path

    @property
    def environment(self) -> dict[str, str]:
        return os.environ | {"PYTHONPATH": str(self.root), "OMP_NUM_THREADS": "1", "COLUMNS": "200"}

    def copy_to(self, target: Path) -> "TinyProject":
        """Copy the project, results and all."""
        shutil.copytree(self.root, target, symlinks=True)
        return TinyProject(target)

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "pipeline.cli", *arguments]

    def run(self, *arguments: str, code: int = 0) -> str:
        """Run `assay` in the project as a user would; check the exit code; return what it printed."""
        done = subprocess.run(
            self.command(*arguments),
            cwd=self.root,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr + self.logs()
        return done.stdout + done.stderr

    @contextmanager
    def started(self, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
        """Have a command under way within the block, in a session of its own, which ends with it."""
        process = subprocess.Popen(
            self.command(*arguments),
            cwd=self.root,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)

    def run_here(self, *arguments: str, code: int = 0) -> str:
        """Do as `run` in this process, without Snakemake: for tests of what a command says and makes.

        The stages that run are those of this checkout; the project's own code is only fingerprinted.
        """
        with (
            chdir(self.root),
            mock.patch.dict(os.environ, {"COLUMNS": "200"}),
            mock.patch.object(fingerprint, "CODE", self.root),
            mock.patch.object(running, "_snakemake", run_in_order),
        ):
            done = CliRunner().invoke(cli, arguments)
        crash = done.exc_info if done.exception and not isinstance(done.exception, SystemExit) else None
        printed = done.output + "".join(traceback.format_exception(*crash) if crash else ())
        assert done.exit_code == code, printed + self.logs()
        return printed

    def logs(self) -> str:
        return "\n".join(
            path.read_text() for path in sorted(self.root.glob("results/.plans/*/snakemake.log"))
        )

    def prepare(self, *overrides: str, sweep: str = "tiny") -> Prepared:
        """Plan in this process, by the project's own code."""
        project = Project(self.root)
        with mock.patch.object(fingerprint, "CODE", self.root):
            return prepare(project, expand_sweep(project.conf, sweep, list(overrides)))

    def to_run(self, *overrides: str, sweep: str = "tiny") -> dict[str, int]:
        """Return how many jobs of each stage would run."""
        counts = self.prepare(*overrides, sweep=sweep).status.counts()
        return {stage: n for stage, row in counts.items() if (n := row["total"] - row["fresh"])}

    def tables(self, sweep: str = "tiny") -> dict[str, bytes]:
        """Return the bytes of a sweep's final tables."""
        latest = self.root / "results" / "sweeps" / sweep / "latest"
        return {
            path.name: path.read_bytes()
            for path in sorted(latest.iterdir())
            if path.suffix in (".csv", ".svg")
        }

    @contextmanager
    def edited(self, file: str, old: str, new: str) -> Iterator[None]:
        """Edit a file of the project for a while."""
        path = self.root / file
        text = path.read_text()
        assert old in text, f"{old!r} is not in {file}"
        path.write_text(text.replace(old, new))
        yield
        path.write_text(text)

    def meta(self, stage: str) -> list[dict[str, object]]:
        return [
            json.loads(p.read_text()) for p in sorted((self.root / "results" / stage).glob("k*/meta.json"))
        ]
