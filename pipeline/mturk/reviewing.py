"""Approve and reject work by file: what is decided already stays as it is."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import AssayError
from pipeline.mturk.client import MTurk, explained, place_of
from pipeline.mturk.collecting import collect_known, refresh
from pipeline.mturk.decisions import Decision, read_decisions, require_known
from pipeline.mturk.listing import reconcile
from pipeline.mturk.records import Record, read_records, records_file
from pipeline.mturk.state import one_at_a_time
from pipeline.study.frozen import FrozenStudy

APPROVE, OVERRIDE, REJECT, ALREADY, LATE = "approve", "override", "reject", "already", "late"
STEPS = {
    (True, "Submitted"): APPROVE,
    (True, "Rejected"): OVERRIDE,
    (True, "Approved"): ALREADY,
    (False, "Submitted"): REJECT,
    (False, "Rejected"): ALREADY,
    (False, "Approved"): LATE,
}
"""What to do, by whether the decision is to approve and by the assignment's status at MTurk."""


@dataclass(frozen=True)
class Reviewed:
    """How many assignments were approved (`n_overridden` of them had been rejected) and rejected.

    `n_already` were as decided before; `too_late` are those to be rejected that are approved: an
    approved assignment is paid, and is never rejected.
    """

    place: str
    n_approved: int
    n_overridden: int
    n_rejected: int
    n_already: int
    too_late: tuple[str, ...]


def step_for(decision: Decision, status: str) -> str:
    """Return approve, override (approve what was rejected), reject, already, or late."""
    return STEPS[not decision.reason, status]


def review(study: FrozenStudy, client: MTurk, decisions_csv: Path) -> Reviewed:
    """Approve and reject the study's assignments as a decisions file says.

    The whole file is checked before the first call. What MTurk says an assignment's status is decides
    what is left to do, so reviewing again goes on after a failure. Raises AssayError for a mistake in
    the file, and where MTurk fails.
    """
    decisions = read_decisions(decisions_csv)
    place = place_of(client)
    with one_at_a_time(study):
        records = _fresh_records(study, client, place, decisions)
        statuses = {name: record["AssignmentStatus"] for name, record in records.items()}
        require_known(decisions, statuses, decisions_csv, f"study {study.name} in the {place}")
        steps = _decide_all(client, decisions, statuses)
        refresh(study, client, place, _hits(records, decisions))
    done = list(steps.values())
    return Reviewed(
        place,
        n_approved=done.count(APPROVE) + done.count(OVERRIDE),
        n_overridden=done.count(OVERRIDE),
        n_rejected=done.count(REJECT),
        n_already=done.count(ALREADY),
        too_late=tuple(assignment for assignment, step in steps.items() if step == LATE),
    )


def _fresh_records(
    study: FrozenStudy, client: MTurk, place: str, decisions: list[Decision]
) -> dict[str, Record]:
    """Return the study's assignments by id; those to decide on as MTurk has them now."""
    path = records_file(study, place)
    known = _by_id(read_records(path))
    if all(decision.assignment in known for decision in decisions):
        refresh(study, client, place, _hits(known, decisions))
    else:
        collect_known(study, client, place, reconcile(study, client, place))
    return _by_id(read_records(path))


def _by_id(records: list[Record]) -> dict[str, Record]:
    return {record["AssignmentId"]: record for record in records}


def _hits(records: Mapping[str, Record], decisions: list[Decision]) -> list[tuple[str, str]]:
    """Return (HIT id, task id) of the assignments to decide on, each once."""
    own = (records[decision.assignment] for decision in decisions)
    return list(dict.fromkeys((record["HITId"], record["task_id"]) for record in own))


def _decide_all(client: MTurk, decisions: list[Decision], statuses: Mapping[str, str]) -> dict[str, str]:
    steps: dict[str, str] = {}
    for decision in decisions:
        try:
            steps[decision.assignment] = _decide(client, decision, statuses[decision.assignment])
        except AssayError as error:
            raise AssayError(
                f"{error}\n{len(steps)} of {len(decisions)} decisions are carried out; "
                "review again with the same file: it does the others only"
            ) from error
    return steps


def _decide(client: MTurk, decision: Decision, status: str) -> str:
    from botocore.exceptions import ClientError

    step, assignment = step_for(decision, status), decision.assignment
    with explained(f"row {decision.row}: to {step} assignment {assignment}"):
        try:
            if step == REJECT:
                client.reject_assignment(AssignmentId=assignment, RequesterFeedback=decision.reason)
            elif step in (APPROVE, OVERRIDE):
                client.approve_assignment(AssignmentId=assignment, OverrideRejection=step == OVERRIDE)
        except ClientError:
            # It may have been decided since it was listed: by MTurk's clock, or by a person on the web.
            now = client.get_assignment(AssignmentId=assignment)["Assignment"]["AssignmentStatus"]
            if (step := step_for(decision, now)) not in (ALREADY, LATE):
                raise
    return step
