"""Assignments as they came from MTurk: JSON lines in the study's `ingested/`."""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pipeline.errors import AssayError
from pipeline.files import replacing
from pipeline.study.frozen import FrozenStudy

Record = dict[str, Any]


def records_file(study: FrozenStudy, place: str) -> Path:
    """Return where the assignments of `place` (sandbox or production) are kept."""
    return study.folder / "ingested" / f"mturk-{place}.jsonl"


def as_record(task: str, assignment: Mapping[str, Any]) -> Record:
    """Return boto3's assignment with its task id, times as ISO text in UTC, and all else untouched."""
    return {"task_id": task} | {key: _text_time(value) for key, value in assignment.items()}


def merged(old: Iterable[Record], new: Iterable[Record]) -> list[Record]:
    """Return each assignment once, in the order first seen, as it was seen last."""
    return list({record["AssignmentId"]: record for record in (*old, *new)}.values())


def read_records(path: Path) -> list[Record]:
    """Return all assignments collected so far; AssayError names a line that is no record."""
    if not path.is_file():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")
    return [_record(path, number, line) for number, line in enumerate(lines, start=1) if line.strip()]


def write_records(path: Path, records: Iterable[Record]) -> None:
    """Write one record a line, in ASCII, atomically."""
    with replacing(path) as temporary, temporary.open("w", encoding="ascii") as stream:
        stream.writelines(f"{json.dumps(record)}\n" for record in records)


def _record(path: Path, number: int, line: str) -> Record:
    try:
        record: Record = json.loads(line)
        return {**record, "AssignmentId": record["AssignmentId"], "HITId": record["HITId"]}
    except (KeyError, TypeError, ValueError):
        raise AssayError(
            f"{path}, line {number} is no assignment of MTurk's: undo the edit, or move the file away and "
            "collect again"
        ) from None


def _text_time(value: Any) -> Any:
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else value
