import itertools
import json

import pytest

from pipeline.errors import AssayError
from pipeline.mturk.client import connect
from pipeline.mturk.collecting import collect
from pipeline.mturk.decisions import Decision, write_decisions
from pipeline.mturk.publishing import Options, publish
from pipeline.mturk.reviewing import review, step_for
from pipeline.mturk.state import read_hits

FLAT = {"image0.on": "true"}


@pytest.fixture
def worked(study, client, turk):
    """A published study, and the ids of six assignments: two of each of its three tasks."""
    publish(study, client, Options(), confirm=lambda plan: True)
    hits = [hit.hit_id for hit in read_hits(study, "sandbox").values()]
    works = [
        turk.work(hit, f"AWORKER{n}", FLAT)["AssignmentId"] for hit, n in itertools.product(hits, (1, 2))
    ]
    return study, works


@pytest.fixture
def decisions(tmp_path):
    def write(approve=(), reject=()):
        path = tmp_path / "decisions.csv"
        rows = [f"{one},x,\n" for one in approve] + [f"{one},,idle\n" for one in reject]
        path.write_text("AssignmentId,Approve,Reject\n" + "".join(rows))
        return path

    return write


def statuses(turk):
    return [one["AssignmentStatus"] for found in turk.assignments.values() for one in found]


def n_decided(turk):
    return turk.calls["ApproveAssignment"] + turk.calls["RejectAssignment"]


def test_work_is_approved_and_rejected_as_the_file_says(worked, client, turk, decisions):
    study, works = worked
    done = review(study, client, decisions(works[:3], works[4:]))
    assert (done.n_approved, done.n_rejected, done.n_overridden, done.n_already) == (3, 2, 0, 0)
    assert done.too_late == ()
    assert statuses(turk) == ["Approved"] * 3 + ["Submitted"] + ["Rejected"] * 2
    assert turk._assignment(works[4])["RequesterFeedback"] == "idle"


def test_what_was_collected_tells_the_new_status(worked, client, decisions):
    study, works = worked
    review(study, client, decisions(works[:1], works[1:2]))
    lines = (study.folder / "ingested" / "mturk-sandbox.jsonl").read_text().splitlines()
    held = {record["AssignmentId"]: record["AssignmentStatus"] for record in map(json.loads, lines)}
    assert [held[one] for one in works[:3]] == ["Approved", "Rejected", "Submitted"]


def test_reviewing_again_does_nothing(worked, client, turk, decisions):
    study, works = worked
    path = decisions(works[:3], works[3:])
    review(study, client, path)
    n_before = n_decided(turk)
    done = review(study, client, path)
    assert (done.n_approved, done.n_rejected, done.n_already, done.too_late) == (0, 0, 6, ())
    assert n_decided(turk) == n_before == 6


def test_approving_what_was_rejected_overrides_it(worked, client, turk, decisions):
    study, works = worked
    review(study, client, decisions(reject=works[:2]))
    done = review(study, client, decisions(approve=works[:2]))
    assert (done.n_approved, done.n_overridden) == (2, 2)
    assert statuses(turk)[:2] == ["Approved"] * 2
    overrides = [p["OverrideRejection"] for name, p in turk.requests if name == "ApproveAssignment"]
    assert overrides == [True, True]


def test_approved_work_is_never_rejected(worked, client, turk, decisions):
    study, works = worked
    review(study, client, decisions(approve=works[:2]))
    done = review(study, client, decisions(reject=works[:3]))
    assert (done.too_late, done.n_rejected) == (tuple(works[:2]), 1)
    assert statuses(turk)[:3] == ["Approved", "Approved", "Rejected"]
    assert turk.calls["RejectAssignment"] == 1


def test_the_file_is_checked_whole_before_the_first_call(worked, client, turk, decisions):
    study, works = worked
    path = decisions(works)
    path.write_text(path.read_text() + f"{works[0]},,idle\n")
    with pytest.raises(AssayError, match="rows 2 and 8"):
        review(study, client, path)
    with pytest.raises(
        AssayError, match="row 8: assignment 3NOBODY is none of the 6 of study pilot in the sandbox"
    ):
        review(study, client, decisions([*works, "3NOBODY"]))
    assert n_decided(turk) == 0


def test_another_studys_work_is_not_reviewed(worked, make_study, client, turk, decisions):
    study, works = worked
    other = make_study(n_tasks=1, name="other")
    publish(other, client, Options(), confirm=lambda plan: True)
    (hit,) = read_hits(other, "sandbox").values()
    theirs = turk.work(hit.hit_id, "AWORKER1", FLAT)["AssignmentId"]
    with pytest.raises(AssayError, match=f"row 3: assignment {theirs} is none of"):
        review(study, client, decisions([works[0], theirs]))
    assert n_decided(turk) == 0


def test_the_sandboxs_work_is_not_reviewed_in_production(worked, turk, decisions):
    study, works = worked
    live = type(turk)().attach(connect(live=True))
    with pytest.raises(AssayError, match="production"):
        review(study, live, decisions(works))


def test_a_failure_on_the_way_says_how_far_it_came_and_goes_on(worked, client, turk, decisions, throttled):
    study, works = worked
    path = decisions(works)
    with (
        turk.failure("ApproveAssignment", throttled, after=2),
        pytest.raises(AssayError, match=r"row 4: to approve.*\n2 of 6 decisions are carried out"),
    ):
        review(study, client, path)
    done = review(study, client, path)
    assert (done.n_approved, done.n_already) == (4, 2)
    assert statuses(turk) == ["Approved"] * 6


def test_an_approval_whose_answer_was_lost_counts_once(worked, client, turk, decisions):
    study, works = worked
    turk.fail_once("ApproveAssignment", "lost")
    done = review(study, client, decisions(works[:1]))
    assert done.n_approved + done.n_already == 1
    assert statuses(turk)[0] == "Approved"


def test_work_that_mturk_approved_meanwhile_is_too_late_to_reject(
    worked, client, turk, decisions, monkeypatch
):
    study, works = worked
    real = turk.do_reject_assignment

    def approved_just_now(asked):
        turk._assignment(asked["AssignmentId"])["AssignmentStatus"] = "Approved"
        return real(asked)

    monkeypatch.setattr(turk, "do_reject_assignment", approved_just_now)
    assert review(study, client, decisions(reject=works[:1])).too_late == (works[0],)


def test_what_mturk_refuses_for_another_reason_is_passed_on(worked, client, turk, decisions):
    study, works = worked
    poor = (400, "RequestError", "AWS.MechanicalTurk.InsufficientFunds", "not enough money")
    with turk.failure("ApproveAssignment", poor), pytest.raises(AssayError, match="InsufficientFunds"):
        review(study, client, decisions(works[:1]))


def test_only_the_tasks_decided_on_are_asked_for(worked, client, turk, decisions):
    study, works = worked
    collect(study, client)
    n_before = turk.calls["ListAssignmentsForHIT"]
    review(study, client, decisions(works[:2]))
    assert turk.calls["ListAssignmentsForHIT"] - n_before == 2  # one HIT, before and after


def test_written_decisions_can_be_reviewed_as_they_are(worked, client, turk, tmp_path):
    study, _ = worked
    collect(study, client)
    assert write_decisions(study, tmp_path / "all.csv", approve_all=True) == 6
    assert review(study, client, tmp_path / "all.csv").n_approved == 6
    assert statuses(turk) == ["Approved"] * 6


@pytest.mark.parametrize(
    ("reason", "status", "step"),
    [
        ("", "Submitted", "approve"),
        ("", "Rejected", "override"),
        ("", "Approved", "already"),
        ("idle", "Submitted", "reject"),
        ("idle", "Rejected", "already"),
        ("idle", "Approved", "late"),
    ],
)
def test_each_status_has_one_step(reason, status, step):
    assert step_for(Decision("3A", reason, 2), status) == step
