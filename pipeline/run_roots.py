"""In which folder of a user's the images of a result lie, as the run that made it says."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pipeline.errors import AssayError
from pipeline.plan.points_table import read_points
from pipeline.plan.project import Project

NEXT_OVERRIDE = re.compile(r" (?=[+~]*[\w./@]+=)")


def root_of_run(project: Project, stage: str, key: str, group: str) -> Path | None:
    """Return the root of a config's group ("dataset" or "pairs") in the newest run with a result.

    The sweep's points.csv says with which overrides the result was made, and these are composed anew. None
    where no sweep holds it, and where its config cannot be composed here or has no root.
    """
    for overrides in _overrides(project, f"{stage}_key", key):
        try:
            config = _composed(project, overrides)
        except AssayError:
            continue
        root = config.get(group, {}).get("root")
        if root:
            return (project.root / Path(str(root)).expanduser()).resolve()
    return None


def _composed(project: Project, overrides: str) -> Mapping[str, Any]:
    from pipeline.plan.compose import Composer

    texts = [text for text in NEXT_OVERRIDE.split(overrides) if text]
    return Composer(project.conf).compose(texts).config


def _overrides(project: Project, column: str, key: str) -> Iterator[str]:
    tables = sorted(
        (project.results / "sweeps").glob("*/k*/points.csv"), key=lambda path: -path.stat().st_mtime
    )
    for path in tables:
        for row in read_points(path):
            if row.get(column) == key:
                yield row["overrides"]
