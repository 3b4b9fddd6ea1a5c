"""Label Studio's JSON export: tasks with their data, each with the annotations of several people."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from pipeline.ingest.sheets import Row, Sheet, sheet_of_records
from pipeline.ingest.text import plain_text

ONLY = "image0"


def fits(values: list[Any]) -> bool:
    """Say whether JSON values are tasks of an export."""
    return any(isinstance(value, dict) and "annotations" in value and "data" in value for value in values)


def read(values: list[Any]) -> Sheet:
    """Return one row an annotation, numbered from 1; tasks without annotations are noted."""
    found = [pair for value in values for pair in _annotations(value)]
    rows = [_row(number, task, annotation) for number, (task, annotation) in enumerate(found, 1)]
    untouched = sum(isinstance(value, dict) and value.get("annotations") == [] for value in values)
    notes = (f"{untouched} tasks without annotations",) if untouched else ()
    return replace(sheet_of_records("Label Studio export, JSON", rows, notes), as_asked=True)


def _annotations(task: Any) -> Iterator[tuple[dict[str, Any], Any]]:
    annotations = _mapping(task).get("annotations")
    if not isinstance(annotations, list):
        annotations = [annotations]
    return ((_mapping(task), annotation) for annotation in annotations)


def _row(number: int, task: dict[str, Any], annotation: Any) -> Row:
    if not isinstance(annotation, dict):
        return Row(number, {}, f"not an annotation: {ascii(annotation)[:40]}")
    data = _mapping(task.get("data"))
    worker = _worker(annotation.get("completed_by"))
    cells = {f"Input.{name}": plain_text(value) for name, value in data.items()} | {
        # An annotation's number is unique in one installation only.
        "AssignmentId": "-".join(
            ["label-studio", plain_text(task.get("id")), plain_text(annotation.get("id")), worker]
        ),
        "WorkerId": worker,
        "SubmitTime": plain_text(annotation.get("created_at")),
        "WorkTimeInSeconds": plain_text(annotation.get("lead_time")),
        "AssignmentStatus": "Submitted",
    }
    if "input_id" in data:
        cells["Input.input_id0"] = cells["Input.input_id"]
        cells["Input.image_url0"] = plain_text(data.get("image_url"))
    fault = "cancelled by the worker: was_cancelled" if annotation.get("was_cancelled") else ""
    return Row(number, cells | _answers(annotation.get("result"), single="input_id" in data), fault)


def _worker(completed_by: Any) -> str:
    if not isinstance(completed_by, dict):
        return plain_text(completed_by)
    return plain_text(completed_by.get("email")) or plain_text(completed_by.get("id"))


def _answers(result: Any, *, single: bool) -> dict[str, str]:
    """Return `Answer.image{j}.on` by choice; several choices are joined and so are neither yes nor no."""
    said: dict[str, list[str]] = {}
    for part in result if isinstance(result, list) else []:
        choices = _mapping(_mapping(part).get("value")).get("choices")
        if isinstance(choices, list):
            name = ONLY if single else plain_text(_mapping(part).get("from_name"))
            said.setdefault(f"Answer.{name}.on", []).extend(map(plain_text, choices))
    return {cell: ";".join(dict.fromkeys(choices)) for cell, choices in said.items()}


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
