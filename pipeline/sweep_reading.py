"""From what a person types after a command, `sweep=NAME key=value ...`, to a planned sweep."""

from collections.abc import Sequence
from pathlib import Path

from pipeline.errors import AssayError
from pipeline.plan.project import find_project
from pipeline.plan.sweep import Sweep, expand_sweep, sweep_names
from pipeline.plan.workflow import Prepared, prepare


def read_sweep(overrides: Sequence[str]) -> Sweep:
    """Expand the one sweep that the words name; AssayError where they name none, or two."""
    project = find_project(Path.cwd())
    names = [text.split("=", 1)[1] for text in overrides if text.startswith("sweep=")]
    if len(names) != 1:
        raise AssayError(
            f"give one sweep: sweep=NAME, where NAME is one of {', '.join(sweep_names(project.conf))}"
        )
    return expand_sweep(project.conf, names[0], [text for text in overrides if not text.startswith("sweep=")])


def prepare_sweep(overrides: Sequence[str]) -> Prepared:
    """Plan that sweep and judge its results."""
    return prepare(find_project(Path.cwd()), read_sweep(overrides))
