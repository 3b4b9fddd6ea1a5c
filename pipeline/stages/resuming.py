"""What a resumable job has done so far, item by item, and going on from there."""

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from pipeline.files import replacing
from pipeline.progress import tracked

T = TypeVar("T")
Record = dict[str, Any]
FLUSH = 10.0
"""Seconds of work that a killed job may lose."""


def resumed(
    items: Mapping[str, T],
    partials: Sequence[Path],
    compute: Callable[[T, list[int]], list[Record]],
    what: str,
) -> list[list[Record]]:
    """Return each job's records of all items, in their order; those in `partials` are not made again.

    compute(item, jobs) gives one record (plain JSON values) a job of those whose record is lacking. What is
    made is kept in `partials`, one folder a job, every `FLUSH` seconds, at the end, and where it is stopped.
    """
    known = [_read(folder) for folder in partials]
    todo = [name for name in items if any(name not in each for each in known)]
    fresh: list[dict[str, Record]] = [{} for _ in partials]
    kept = time.monotonic()
    try:
        for name in tracked(todo, what, at_start=len(items) - len(todo)):
            jobs = [job for job, each in enumerate(known) if name not in each]
            for job, record in zip(jobs, compute(items[name], jobs), strict=True):
                known[job][name] = fresh[job][name] = record
            if time.monotonic() - kept > FLUSH:
                _keep(partials, fresh)
                kept = time.monotonic()
    finally:
        _keep(partials, fresh)
    return [[each[name] for name in items] for each in known]


def _read(folder: Path) -> dict[str, Record]:
    """Return what is kept; a file that is not what was written is left out, and its items are made again."""
    found: dict[str, Record] = {}
    for path in sorted(folder.glob("*.json")):
        with suppress(OSError):  # another process has ended and taken it away
            content = path.read_bytes()
            if path.stem.partition("-")[2] == _seal(content):
                found |= json.loads(content)
    return found


def _seal(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _keep(partials: Sequence[Path], fresh: list[dict[str, Record]]) -> None:
    """Write what is new into one more file a job; NaN stays NaN."""
    for folder, records in zip(partials, fresh, strict=True):
        if records:
            number = sum(1 for _ in folder.glob("*.json"))
            content = json.dumps(records).encode()
            with replacing(folder / f"{number:06d}-{_seal(content)}.json") as temporary:
                temporary.write_bytes(content)
            records.clear()
