"""What W&B gets of a sweep as files: the report and the tables; and where its results are."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict

from pipeline.stages.tables import written


class Published(TypedDict):
    """Fields of a SweepRecord."""

    files: dict[str, Path]
    references: tuple[Path, ...]


def published(inputs: Mapping[str, Any], comparison: str) -> Published:
    """Return report.html, tables/<name>.csv, and the results that they are of."""
    pages = {path.name: path for path in written(inputs["report"], "*.html")}
    tables = {f"tables/{path.name}": path for path in written(inputs[comparison], "*.csv")}
    return {"files": pages | tables, "references": (inputs[comparison], inputs["report"])}
