"""Write what MTurk's batch page gives for download, from tasks and from what each worker says."""

import csv
from collections.abc import Callable, Iterable
from pathlib import Path

import pandas as pd

from pipeline.study.frozen import FrozenStudy

FIXED = (
    "HITId", "HITTypeId", "Title", "Description", "Keywords", "Reward", "CreationTime", "MaxAssignments",
    "RequesterAnnotation", "AssignmentDurationInSeconds", "AutoApprovalDelayInSeconds", "Expiration",
    "NumberOfSimilarHITs", "LifetimeInSeconds", "AssignmentId", "WorkerId", "AssignmentStatus", "AcceptTime",
    "SubmitTime", "AutoApprovalTime", "ApprovalTime", "RejectionTime", "RequesterFeedback",
    "WorkTimeInSeconds", "LifetimeApprovalRate", "Last30DaysApprovalRate", "Last7DaysApprovalRate",
)  # fmt: skip
NOW = "Thu Oct 09 07:30:20 UTC 2025"


def write_results(
    study: FrozenStudy, workers: Iterable[str], rating: Callable[[str, str], bool | None], path: Path
) -> None:
    """Write a row for each task and worker who rates its inputs; rating(worker, input_id) None: no row."""
    rows = []
    for number, task in enumerate(study.tasks.to_dict("records")):
        inputs = study.asked.tasks[task["task_id"]]
        for worker in workers:
            answers = {
                f"Answer.image{j}.on": str(rating(worker, i)).lower() for j, i in enumerate(inputs) if i
            }
            if "none" not in answers.values():
                rows.append(_row(number, worker, task, answers))
    columns = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", newline="", encoding="utf-8-sig") as stream:
        writer = csv.DictWriter(stream, columns, restval="", quoting=csv.QUOTE_ALL)
        writer.writeheader()
        writer.writerows(rows)


def _row(number: int, worker: str, task: dict[str, str], answers: dict[str, str]) -> dict[str, str]:
    fixed = dict.fromkeys(FIXED, "") | {
        "HITId": f"HIT{number}",
        "AssignmentId": f"A{number}-{worker}",
        "WorkerId": worker,
        "AssignmentStatus": "Submitted",
        "Reward": "$0.06",
        "AcceptTime": NOW,
        "SubmitTime": NOW,
        "WorkTimeInSeconds": "61",
        "LifetimeApprovalRate": "100% (5/5)",
    }
    inputs = {f"Input.{name}": cell for name, cell in task.items()}
    return fixed | inputs | answers | {"Approve": "", "Reject": ""}


def said_by(ratings: pd.DataFrame, study: FrozenStudy) -> Callable[[str, str], bool | None]:
    """Return what each worker of a ratings table says of an input, None where the worker said nothing."""
    known = {
        (worker, image, text): bool(value)
        for worker, image, text, value in ratings[["worker", "image_id", "description", "rating"]].itertuples(
            index=False
        )
    }
    inputs = study.asked.inputs
    return lambda worker, key: known.get((worker, inputs[key].image_id, inputs[key].description))
