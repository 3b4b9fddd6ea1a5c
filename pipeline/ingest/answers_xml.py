"""Assignments as boto3 gives them: JSON whose `Answer` is QuestionFormAnswers XML."""

from typing import Any
from xml.etree.ElementTree import Element, ParseError

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import fromstring

from pipeline.ingest.sheets import Row, Sheet, sheet_of_records
from pipeline.ingest.text import plain_text
from pipeline.ingest.times import read_time

KEPT = (
    "AssignmentId",
    "WorkerId",
    "HITId",
    "AssignmentStatus",
    "AcceptTime",
    "SubmitTime",
    "ApprovalTime",
    "RejectionTime",
)
PAGE = "Assignments"


def fits(values: list[Any]) -> bool:
    """Say whether JSON values are assignments, or pages of them."""
    return any(isinstance(v, dict) and (PAGE in v or {"AssignmentId", "Answer"} <= v.keys()) for v in values)


def read(values: list[Any]) -> Sheet:
    """Return one row an assignment, numbered from 1."""
    assignments = [assignment for value in values for assignment in _unpaged(value)]
    rows = [_row(number, assignment) for number, assignment in enumerate(assignments, 1)]
    return sheet_of_records("MTurk assignments, JSON with XML answers", rows)


def _unpaged(value: Any) -> list[Any]:
    if not isinstance(value, dict) or PAGE not in value:
        return [value]
    return value[PAGE] if isinstance(value[PAGE], list) else [value[PAGE]]


def _row(number: int, assignment: Any) -> Row:
    if not isinstance(assignment, dict):
        return Row(number, {}, f"not an assignment: {ascii(assignment)[:40]}")
    cells = {name: plain_text(assignment.get(name)) for name in KEPT}
    cells["WorkTimeInSeconds"] = _seconds(cells["AcceptTime"], cells["SubmitTime"])
    if task := plain_text(assignment.get("task_id")):
        cells["Input.task_id"] = task
    try:
        return Row(number, cells | _answers(plain_text(assignment.get("Answer"))))
    except (ParseError, DefusedXmlException, ValueError) as error:
        return Row(number, cells, f"unreadable answer: {ascii(str(error))[1:-1]}")


def _answers(xml: str) -> dict[str, str]:
    cells: dict[str, str] = {}
    for answer in fromstring(xml):
        if _name(answer) == "Answer":
            parts = {_name(part): part.text or "" for part in answer}
            cell = f"Answer.{parts.pop('QuestionIdentifier', '').strip()}"
            said = ";".join(text for text in parts.values() if text.strip())
            if cells.setdefault(cell, said) != said:
                raise ValueError(f"two answers to {cell.removeprefix('Answer.')}")
    return cells


def _name(element: Element) -> str:
    return str(element.tag).rpartition("}")[2]


def _seconds(accepted: str, submitted: str) -> str:
    start, end = read_time(accepted), read_time(submitted)
    return str((end - start).total_seconds()) if start and end else ""
