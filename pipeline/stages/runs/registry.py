"""Tracks by the name in `track`: what W&B is told of their sweeps."""

import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pipeline.errors import AssayError
from pipeline.report.tracking import PointRecord, SweepRecord

NAMES = ("crowd", "sae", "vlm")
Records = Callable[[Mapping[str, Any], Mapping[str, Any], Path], tuple[list[PointRecord], SweepRecord]]


def records_of(track: str) -> Records:
    """Return `records(config, inputs, pictures)` of the track: a record a point, and the sweep's.

    pictures: a folder for the points' pictures, which must be there until they are logged.
    """
    if track not in NAMES:
        raise AssayError(f"track={track!r} is not known; choose from {', '.join(NAMES)}")
    records: Records = importlib.import_module(f"pipeline.stages.runs.{track}").records
    return records
