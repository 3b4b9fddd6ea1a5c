"""MTurk's batch results, and Turkle's, which leave some columns out and add the user's name."""

import re

from pipeline.delimited import first_record
from pipeline.errors import AssayError
from pipeline.ingest.sheets import File, Sheet
from pipeline.ingest.task_answers import COLUMN, answer_cells
from pipeline.ingest.text import DelimitedRows, require_distinct

FIXED = (
    "HITId",
    "HITTypeId",
    "Title",
    "Description",
    "Keywords",
    "Reward",
    "CreationTime",
    "MaxAssignments",
    "RequesterAnnotation",
    "AssignmentDurationInSeconds",
    "AutoApprovalDelayInSeconds",
    "Expiration",
    "NumberOfSimilarHITs",
    "LifetimeInSeconds",
    "AssignmentId",
    "WorkerId",
    "AssignmentStatus",
    "AcceptTime",
    "SubmitTime",
    "AutoApprovalTime",
    "ApprovalTime",
    "RejectionTime",
    "RequesterFeedback",
    "WorkTimeInSeconds",
    "LifetimeApprovalRate",
    "Last30DaysApprovalRate",
    "Last7DaysApprovalRate",
)
IDS = frozenset({"HITId", "AssignmentId", "WorkerId", "Turkle.Username"})
STATUS = FIXED.index("AssignmentStatus")
STATUSES = frozenset({"Submitted", "Approved", "Rejected"})
TASK_ID = re.compile(r"t[0-9a-f]{12}")


def fits(columns: list[str]) -> bool:
    """Say whether a header is one of batch results."""
    return len(IDS.intersection(columns)) >= 2 or any(name.startswith("Answer.") for name in columns)


def read(file: File, text: str, delimiter: str) -> Sheet:
    """Return the rows; AssayError for two columns of one name."""
    columns = first_record(text, delimiter)
    require_distinct(columns, file.source)
    form = "Turkle results" if "Turkle.Username" in columns else "MTurk results"
    rows = DelimitedRows(file.source, text, delimiter, tuple(columns))
    return Sheet(f"{form}, {_kind(delimiter)}", frozenset(columns), rows)


def fits_headerless(cells: list[str]) -> bool:
    """Say whether a first row is one of batch results without their header."""
    return len(cells) > len(FIXED) and cells[STATUS] in STATUSES


def read_headerless(file: File, text: str, delimiter: str) -> Sheet:
    """Return the rows of a file that lacks its header.

    The first 27 columns are fixed. Of the others only answers that name themselves
    (`taskAnswers`) can be told apart, and a task id by its form. AssayError for any other file.
    """
    first = first_record(text, delimiter)
    answers = [place for place, cell in enumerate(first) if place >= len(FIXED) and _names_itself(cell)]
    if len(answers) != 1:
        raise AssayError(
            f"{file.source}: no header line, and the columns after the first {len(FIXED)} do not name "
            "themselves; put the header line of another file of this batch on top"
        )
    columns = [*FIXED, *(f"column {place + 1}" for place in range(len(FIXED), len(first)))]
    columns[answers[0]] = COLUMN
    if tasks := [place for place, cell in enumerate(first) if TASK_ID.fullmatch(cell)]:
        columns[tasks[0]] = "Input.task_id"
    rows = DelimitedRows(file.source, text, delimiter, tuple(columns), has_header=False)
    return Sheet(
        f"MTurk results, {_kind(delimiter)}",
        frozenset(columns),
        rows,
        notes=("no header: the fixed columns",),
    )


def _names_itself(cell: str) -> bool:
    try:
        return bool(cell) and bool(answer_cells(cell))
    except ValueError:
        return False


def _kind(delimiter: str) -> str:
    return "TSV" if delimiter == "\t" else "CSV"
