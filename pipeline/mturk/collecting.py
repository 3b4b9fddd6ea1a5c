"""Collect what workers answered: all assignments of all HITs, kept in the study."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import AssayError
from pipeline.mturk.client import PAGE_SIZE, MTurk, explained, place_of, turk_code, turk_message
from pipeline.mturk.listing import Known, reconcile
from pipeline.mturk.records import Record, as_record, merged, read_records, records_file, write_records
from pipeline.mturk.state import one_at_a_time
from pipeline.study.frozen import FrozenStudy

STATUSES = ["Submitted", "Approved", "Rejected"]
UNDECIDED = "Submitted"


@dataclass(frozen=True)
class Collected:
    """What `file` holds now: `n_assignments`, `n_new` of them new, `n_to_review` undecided.

    `n_hits` tasks were asked for, of which MTurk deleted `n_gone`; `n_open` may still bring more.
    """

    file: Path
    n_hits: int
    n_open: int
    n_gone: int
    n_assignments: int
    n_new: int
    n_to_review: int


def collect(study: FrozenStudy, client: MTurk) -> Collected:
    """Fetch all assignments of the study and join them with those collected before.

    What MTurk no longer has stays in the file. Raises AssayError where nothing was published, and where
    MTurk fails: what was fetched until then is kept.
    """
    place = place_of(client)
    with one_at_a_time(study):
        return collect_known(study, client, place, reconcile(study, client, place))


def collect_known(study: FrozenStudy, client: MTurk, place: str, known: Known) -> Collected:
    """Collect from known HITs; the caller holds the study's lock."""
    tasks = {hit.hit_id: task for task, hit in known.hits.items()}
    tasks |= {one.hit.hit_id: one.task_id for one in known.listed}
    if not tasks:
        raise AssayError(
            f"nothing of study {study.name} was published in the {place}: `assay publish` it first"
        )
    n_before = len(read_records(records_file(study, place)))
    n_gone = len(tasks) - refresh(study, client, place, tasks.items())
    records = read_records(records_file(study, place))
    return Collected(
        records_file(study, place),
        n_hits=len(tasks),
        n_open=sum(one.is_open for one in known.listed),
        n_gone=n_gone,
        n_assignments=len(records),
        n_new=len(records) - n_before,
        n_to_review=sum(record["AssignmentStatus"] == UNDECIDED for record in records),
    )


def refresh(study: FrozenStudy, client: MTurk, place: str, tasks: Iterable[tuple[str, str]]) -> int:
    """Fetch the assignments of (HIT id, task id) pairs; return how many of the HITs MTurk still has."""
    path = records_file(study, place)
    old, new, n_there = read_records(path), list[Record](), 0
    try:
        for hit_id, task in tasks:
            fetched = _fetch(client, hit_id, task)
            new += fetched or []
            n_there += fetched is not None
    finally:
        if new:
            write_records(path, merged(old, new))
    return n_there


def _fetch(client: MTurk, hit_id: str, task: str) -> list[Record] | None:
    """Return a HIT's assignments, None where MTurk has the HIT no more."""
    from botocore.exceptions import ClientError

    pages = client.get_paginator("list_assignments_for_hit").paginate(
        HITId=hit_id, AssignmentStatuses=STATUSES, PaginationConfig={"PageSize": PAGE_SIZE}
    )
    with explained(f"collecting the assignments of HIT {hit_id} (task {task}); collect again"):
        try:
            return [as_record(task, found) for page in pages for found in page.get("Assignments", [])]
        except ClientError as error:
            if turk_code(error) == "HITDoesNotExist" or "does not exist" in turk_message(error):
                return None
            raise
