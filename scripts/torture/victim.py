"""A project of its own: its runs, its processes, the bytes of its results, what is left over."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from pipeline.files import sha256
from scripts.torture.sweeps import Sweep

CODE = Path(__file__).parents[2]
PARTS = ("Snakefile", "conf", "pipeline", "profiles", "pyproject.toml")
NOT_RESULTS = ("sweeps", "quarantine")
TIMED = ("tracking",)
"""Stages whose files hold times of the clock: W&B's logs."""
LIMIT = 3600.0
"""Seconds that a run may take."""


@dataclass(frozen=True)
class Ended:
    """The end of a command: its exit code (negative: the signal that ended it) and what it said."""

    code: int
    said: str


@dataclass(frozen=True)
class Victim:
    """A project folder that is tortured."""

    root: Path
    extra: Mapping[str, str] = field(default_factory=dict)

    @property
    def results(self) -> Path:
        """Its results."""
        return self.root / "results"

    @property
    def environment(self) -> dict[str, str]:
        """The environment of its commands: one thread a process, its own code."""
        own = {"PYTHONPATH": str(self.root), "OMP_NUM_THREADS": "1", "COLUMNS": "250", "HF_HUB_OFFLINE": "1"}
        return os.environ | own | dict(self.extra)

    def copy_to(self, target: Path, *, results: bool = True) -> "Victim":
        """Copy the project; without `results` it has only what planning remembers."""
        if target.exists():
            shutil.rmtree(target)
        skip = None if results else shutil.ignore_patterns("results")
        shutil.copytree(self.root, target, symlinks=True, ignore=skip)
        return Victim(target, self.extra)

    def command(self, *arguments: str) -> list[str]:
        """Return `assay ...` as a command line."""
        return [sys.executable, "-m", "pipeline.cli", *arguments]

    def start(self, *arguments: str, wrapped: Sequence[str] = ()) -> "Running":
        """Start a command in a session of its own, so that a signal reaches all of it and nothing else."""
        log = self.root / f".said-{time.monotonic_ns()}"
        with log.open("w") as stream:
            process = subprocess.Popen(
                [*wrapped, *self.command(*arguments)],
                cwd=self.root,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                start_new_session=True,
                preexec_fn=hear_ctrl_c,
            )
        return Running(process, log)

    def run(self, *arguments: str, wrapped: Sequence[str] = ()) -> Ended:
        """Run a command to its end."""
        return self.start(*arguments, wrapped=wrapped).end()

    def to_run(self, sweep: Sweep) -> dict[str, int]:
        """Return how many results of each stage a run would make."""
        told = self.run("plan", *sweep.arguments, "--json")
        if told.code:
            return {f"assay plan ended with {told.code}: {told.said[-500:]}": 1}
        jobs = json.loads(told.said.strip().splitlines()[-1])["jobs"]
        return {stage: n for stage, row in jobs.items() if (n := row["total"] - row["fresh"])}

    def tables(self, sweep: Sweep) -> dict[str, str]:
        """Return the SHA-256 of each table and figure of a sweep."""
        latest = self.results / "sweeps" / sweep.name / "latest"
        kinds = (".csv", ".svg", ".txt", ".png")
        found = sorted(latest.iterdir()) if latest.is_dir() else []
        return {path.name: sha256(path) for path in found if path.suffix in kinds}

    def stages(self) -> list[str]:
        """Return the stages that have results."""
        return sorted({path.parent.name for path in self.results.glob("*/k*") if _is_result(path)})

    def outputs(self) -> dict[str, str]:
        """Return the SHA-256 of each file of each result, as its stage wrote it."""
        folders = [path for path in self.results.glob("*/k*") if _is_result(path)]
        return {
            str(path.relative_to(self.results)): sha256(path)
            for folder in sorted(folders)
            if folder.parent.name not in TIMED
            for path in sorted(folder.rglob("*"))
            if path.is_file() and path.name != "meta.json"
        }

    def remove(self, stages: Sequence[str]) -> None:
        """Remove all results of some stages."""
        for stage in stages:
            shutil.rmtree(self.results / stage, ignore_errors=True)

    def processes(self) -> list[psutil.Process]:
        """Return the processes that work in the project."""
        return [process for process in psutil.process_iter() if self._is_mine(process)]

    def _is_mine(self, process: psutil.Process) -> bool:
        with suppress(psutil.Error):
            if process.status() == psutil.STATUS_ZOMBIE:
                return False
            inside = [process.cwd(), *process.cmdline()]
            return any(part == str(self.root) or part.startswith(f"{self.root}/") for part in inside)
        return False

    def leftovers(self) -> list[str]:
        """Return what killed runs left and no later run took away."""
        hidden = [*self.results.glob("*/.k*"), *self.results.glob(".partials/*/k*")]
        hidden += list(self.results.glob("sweeps/**/.*"))
        return sorted(str(path.relative_to(self.results)) for path in hidden)


def _is_result(path: Path) -> bool:
    return path.parent.name not in NOT_RESULTS and not path.parent.name.startswith(".")


@dataclass(frozen=True)
class Running:
    """A command at work."""

    process: "subprocess.Popen[bytes]"
    log: Path

    def end(self, limit: float = LIMIT) -> Ended:
        """Wait for its end; one that takes longer than `limit` seconds is killed."""
        try:
            code = self.process.wait(limit)
        except subprocess.TimeoutExpired:
            self.signal_all(signal.SIGKILL)
            self.process.wait()
            return Ended(-1000, self._said() + f"\nit was at work for {limit:.0f} s and did not end")
        return Ended(code, self._said())

    def _said(self) -> str:
        said = self.log.read_text(encoding="utf-8", errors="replace")
        self.log.unlink()
        return said

    def signal_all(self, number: signal.Signals) -> None:
        """Send a signal to the whole session, as a terminal does."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def members(self, word: str) -> Iterator[psutil.Process]:
        """Yield the descendants with a word in their command line."""
        with suppress(psutil.NoSuchProcess):
            for child in psutil.Process(self.process.pid).children(recursive=True):
                with suppress(psutil.Error):
                    if word in child.cmdline():
                        yield child


def hear_ctrl_c() -> None:
    """Let a process hear SIGINT, which the background jobs of a script ignore."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def new_victim(target: Path) -> Victim:
    """Make a project of this checkout's code, or give a project that is there this code."""
    target.mkdir(parents=True, exist_ok=True)
    for part in PARTS:
        source = CODE / part
        if source.is_dir():
            shutil.rmtree(target / part, ignore_errors=True)
            shutil.copytree(source, target / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target / part)
    return Victim(target)
