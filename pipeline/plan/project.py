"""Where things are: the project folder and what lies in it."""

import platform
from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import AssayError

CODE = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Project:
    """A folder that holds Snakefile and conf/."""

    root: Path

    @property
    def conf(self) -> Path:
        """Hydra's config folder."""
        return self.root / "conf"

    @property
    def results(self) -> Path:
        """Stage results, `<stage>/<key>/`."""
        return self.root / "results"

    @property
    def plans(self) -> Path:
        """Plan files and the markers of their batches."""
        return self.results / ".plans"

    @property
    def partials(self) -> Path:
        """What resumable jobs have done so far, `<stage>/<key>-<inputs>/`."""
        return self.results / ".partials"

    @property
    def studies(self) -> Path:
        """Frozen studies, never cleaned."""
        return self.root / "studies"

    @property
    def accepted(self) -> Path:
        """What people said changes no result (`assay accept`)."""
        return self.root / "accepted.json"

    @property
    def memory(self) -> Path:
        """What planning remembers between runs: one file a machine, as SQLite's locks end there."""
        return self.results / f".memory.{platform.node()}.sqlite"

    def result(self, stage: str, key: str) -> Path:
        """Return the folder of one result."""
        return self.results / stage / key


def find_project(start: Path) -> Project:
    """Return the nearest project at or above `start`; AssayError where there is none."""
    for folder in (start.resolve(), *start.resolve().parents):
        if (folder / "Snakefile").is_file() and (folder / "conf").is_dir():
            return Project(folder)
    raise AssayError(
        f"no assay project at {start.resolve()} or above it: go to a folder that holds Snakefile and conf/"
    )
