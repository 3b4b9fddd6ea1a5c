"""Which work to pay: a CSV with AssignmentId, Approve (x) and Reject (a reason), as MTurk itself takes."""

import csv
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import AssayError
from pipeline.files import replacing
from pipeline.mturk.client import place_name
from pipeline.mturk.records import read_records, records_file
from pipeline.study.frozen import FrozenStudy

COLUMNS = ("AssignmentId", "Approve", "Reject")
WRITTEN = ("AssignmentId", "HITId", "task_id", "WorkerId", "SubmitTime", "AutoApprovalTime")
LONGEST_REASON = 1024
NOT_IN_REASON = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")


@dataclass(frozen=True)
class Decision:
    """Approve an assignment, or reject it where there is a `reason`. The header is row 1."""

    assignment: str
    reason: str
    row: int


def read_decisions(path: Path) -> list[Decision]:
    """Return the decided rows of a decisions file; rows with neither mark are left undecided.

    Raises AssayError for a file that is no such table, both marks in a row, an Approve other than x, a
    Reject that gives no reason or one that MTurk does not take, and two decisions on one assignment.
    """
    found: dict[str, Decision] = {}
    for number, (assignment, approve, reject) in _rows(path):
        if not approve and not reject:
            continue
        _require_legal(f"{path}, row {number}", assignment, approve, reject)
        first = found.setdefault(assignment, Decision(assignment, reject, number))
        if first.reason != reject:
            raise AssayError(
                f"{path}: rows {first.row} and {number} decide {assignment} differently; keep one"
            )
    return list(found.values())


def write_decisions(study: FrozenStudy, path: Path, *, live: bool = False, approve_all: bool = False) -> int:
    """Write a row for each collected assignment that is undecided, for a person to edit; return how many.

    Raises AssayError where the file exists: it may hold someone's decisions.
    """
    if path.exists():
        raise AssayError(f"{path} exists: review it, or write the decisions elsewhere")
    records = read_records(records_file(study, place_name(live)))
    rows = [
        [*(record.get(name, "") for name in WRITTEN), "x" if approve_all else "", ""]
        for record in records
        if record["AssignmentStatus"] == "Submitted"
    ]
    with replacing(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream, lineterminator="\n").writerows([[*WRITTEN, *COLUMNS[1:]], *rows])
    return len(rows)


def require_known(
    decisions: Iterable[Decision], assignments: Mapping[str, str], path: Path, whose: str
) -> None:
    """Raise AssayError for the first decision on an assignment that is not among the study's."""
    for decision in decisions:
        if decision.assignment not in assignments:
            raise AssayError(
                f"{path}, row {decision.row}: assignment {decision.assignment} is none of the "
                f"{len(assignments)} of {whose}: take the row out, or name the right study and place (--live)"
            )


def _rows(path: Path) -> Iterator[tuple[int, tuple[str, str, str]]]:
    """Yield each row's number, and its cells of COLUMNS without spaces around them."""
    table = _table(path)
    header = table[0] if table else []
    if missing := [name for name in COLUMNS if name not in header]:
        raise AssayError(f"{path} lacks the column {missing[0]}; it has {', '.join(header) or 'none'}")
    for number, row in enumerate(table[1:], start=2):
        if row and len(row) != len(header):
            raise AssayError(f"{path}, row {number} has {len(row)} cells, and the header {len(header)}")
        if row:
            cells = dict(zip(header, row, strict=True))
            yield number, (cells["AssignmentId"].strip(), cells["Approve"].strip(), cells["Reject"].strip())


def _table(path: Path) -> list[list[str]]:
    if not path.is_file():
        raise AssayError(f"{path}: no such file")
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            return list(csv.reader(stream, strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        raise AssayError(f"{path} is no CSV file in UTF-8: {error}") from None


def _require_legal(where: str, assignment: str, approve: str, reject: str) -> None:
    if not assignment:
        raise AssayError(f"{where} has no AssignmentId")
    if approve and reject:
        raise AssayError(f"{where}: {assignment} is both approved and rejected; clear one of the two cells")
    if approve and approve.lower() != "x":
        raise AssayError(f"{where}: Approve is {approve!r}; write x, or leave it blank")
    if reject.lower() == "x":
        raise AssayError(f"{where}: Reject is {reject!r}; write the reason, which the worker reads")
    if len(reject) > LONGEST_REASON or NOT_IN_REASON.search(reject):
        raise AssayError(
            f"{where}: the reason in Reject must be plain text of at most {LONGEST_REASON} characters"
        )
