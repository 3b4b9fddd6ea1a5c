import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from defusedxml import ElementTree

from pipeline.errors import AssayError
from pipeline.mturk.client import connect
from pipeline.mturk.collecting import collect
from pipeline.mturk.publishing import Options, publish
from pipeline.mturk.records import as_record
from pipeline.mturk.state import read_hits

ANSWERS = (
    "{http://mechanicalturk.amazonaws.com/AWSMechanicalTurkDataSchemas/2005-10-01/QuestionFormAnswers.xsd}"
)
FLAT = {"image0.on": "true", "image1.on": "false"}
NESTED = {"taskAnswers": json.dumps([{"image0": {"on": True}, "image1": {"on": False}, "note": 'a "b" <c>'}])}
PLAIN = {"image1": "on", "shown": "0,1"}


@pytest.fixture
def published(study, client):
    publish(study, client, Options(), confirm=lambda plan: True)
    return study


def lines(study, place="sandbox"):
    path = study.folder / "ingested" / f"mturk-{place}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def hit_ids(study):
    return [hit.hit_id for hit in read_hits(study, "sandbox").values()]


def fields_of(record):
    root = ElementTree.fromstring(record["Answer"])
    return {one.findtext(f"{ANSWERS}QuestionIdentifier"): one.findtext(f"{ANSWERS}FreeText") for one in root}


def test_what_workers_hand_in_comes_back_word_for_word(published, client, turk):
    handed_in = {
        turk.work(hit_id, f"AWORKER{n}", fields)["AssignmentId"]: fields
        for n, (hit_id, fields) in enumerate(zip(hit_ids(published), [FLAT, NESTED, PLAIN], strict=True))
    }
    done = collect(published, client)
    assert {record["AssignmentId"]: fields_of(record) for record in lines(published)} == handed_in
    assert (done.n_hits, done.n_assignments, done.n_new, done.n_to_review) == (3, 3, 3, 3)
    assert done.file == published.folder / "ingested" / "mturk-sandbox.jsonl"


def test_a_line_is_boto3s_assignment_with_its_task(published, client, turk):
    hit_id = hit_ids(published)[1]
    sent = turk.work(hit_id, "AWORKER1", FLAT)
    collect(published, client)
    assert lines(published) == [
        {
            "task_id": published.tasks["task_id"][1],
            "AssignmentId": sent["AssignmentId"],
            "WorkerId": "AWORKER1",
            "HITId": hit_id,
            "AssignmentStatus": "Submitted",
            "AutoApprovalTime": "2025-10-12T07:30:20+00:00",
            "AcceptTime": "2025-10-09T07:30:20+00:00",
            "SubmitTime": "2025-10-09T07:31:21+00:00",
            "Answer": sent["Answer"],
        }
    ]


def test_times_are_written_in_utc_wherever_the_computer_is():
    summer = datetime(2025, 10, 9, 9, 30, 20, tzinfo=timezone(timedelta(hours=2)))
    record = as_record("t1", {"AssignmentId": "3A", "AcceptTime": summer, "RequesterFeedback": ""})
    assert record == {
        "task_id": "t1",
        "AssignmentId": "3A",
        "AcceptTime": "2025-10-09T07:30:20+00:00",
        "RequesterFeedback": "",
    }


def test_more_than_a_hundred_assignments_are_paged_through(make_study, client, turk):
    study = make_study(n_tasks=2, n_raters=250)
    publish(study, client, Options(), confirm=lambda plan: True)
    for number in range(250):
        turk.work(hit_ids(study)[0], f"AWORKER{number}", FLAT)
    done = collect(study, client)
    assert done.n_assignments == len({record["AssignmentId"] for record in lines(study)}) == 250
    assert {record["WorkerId"] for record in lines(study)} == {f"AWORKER{n}" for n in range(250)}
    assert turk.calls["ListAssignmentsForHIT"] == 3 + 1
    sizes = [params["MaxResults"] for name, params in turk.requests if name == "ListAssignmentsForHIT"]
    assert sizes == [100] * 4


def test_collecting_again_adds_only_what_is_new(published, client, turk):
    first, second, _ = hit_ids(published)
    turk.work(first, "AWORKER1", FLAT)
    assert collect(published, client).n_new == 1
    turk.work(second, "AWORKER1", FLAT)
    done = collect(published, client)
    assert (done.n_new, done.n_assignments) == (1, 2)
    assert collect(published, client).n_new == 0
    assert len(lines(published)) == 2


def test_rejected_and_approved_work_is_collected_with_its_status_of_today(published, client, turk):
    works = [turk.work(hit_ids(published)[0], f"AWORKER{n}", FLAT)["AssignmentId"] for n in range(3)]
    collect(published, client)
    client.approve_assignment(AssignmentId=works[0])
    client.reject_assignment(AssignmentId=works[1], RequesterFeedback="empty")
    done = collect(published, client)
    assert [record["AssignmentStatus"] for record in lines(published)] == [
        "Approved",
        "Rejected",
        "Submitted",
    ]
    assert "RejectionTime" in lines(published)[1] and lines(published)[1]["RequesterFeedback"] == "empty"
    assert (done.n_new, done.n_to_review) == (0, 1)


def test_a_deleted_hit_loses_nothing_that_was_collected(published, client, turk):
    first, second, third = hit_ids(published)
    for hit_id in (first, second):
        turk.work(hit_id, "AWORKER1", FLAT)
    collect(published, client)
    before = lines(published)
    turk.delete(first)
    turk.work(third, "AWORKER1", FLAT)
    done = collect(published, client)
    assert lines(published)[:2] == before
    assert (done.n_hits, done.n_gone, done.n_assignments, done.n_new) == (3, 1, 3, 1)


def test_work_is_found_without_mturk_json(published, client, turk):
    turk.work(hit_ids(published)[0], "AWORKER1", FLAT)
    (published.folder / "mturk.json").unlink()
    assert collect(published, client).n_assignments == 1
    assert lines(published)[0]["task_id"] == published.tasks["task_id"][0]


def test_work_on_a_task_that_was_edited_since_is_still_collected(make_study, client, turk):
    study = make_study(n_tasks=3)
    publish(study, client, Options(), confirm=lambda plan: True)
    for hit_id in hit_ids(study):
        turk.work(hit_id, "AWORKER1", FLAT)
    (study.folder / "mturk.json").unlink()
    assert collect(make_study(n_tasks=2), client).n_assignments == 3


def test_a_second_hit_of_one_task_is_collected_too(published, client, turk):
    first, second, _ = hit_ids(published)
    turk.hits[second]["RequesterAnnotation"] = turk.hits[first]["RequesterAnnotation"]
    held = json.loads((published.folder / "mturk.json").read_text())["sandbox"]
    del held[published.tasks["task_id"][1]]
    (published.folder / "mturk.json").write_text(json.dumps({"sandbox": held}))
    for hit_id in (first, second):
        turk.work(hit_id, "AWORKER1", FLAT)
    collect(published, client)
    assert [record["task_id"] for record in lines(published)] == [published.tasks["task_id"][0]] * 2


def test_open_tasks_are_those_that_may_bring_more(make_study, client, turk):
    study = make_study(n_tasks=3, n_raters=1)
    publish(study, client, Options(), confirm=lambda plan: True)
    first, second, _ = hit_ids(study)
    turk.work(first, "AWORKER1", FLAT)
    turk.hits[second]["Expiration"] = datetime(2025, 1, 1, tzinfo=UTC)
    assert collect(study, client).n_open == 1


def test_a_failure_on_the_way_keeps_what_was_fetched(published, client, turk, throttled):
    for hit_id in hit_ids(published):
        turk.work(hit_id, "AWORKER1", FLAT)
    with (
        turk.failure("ListAssignmentsForHIT", throttled, after=2),
        pytest.raises(AssayError, match="Rate exceeded"),
    ):
        collect(published, client)
    assert len(lines(published)) == 2
    done = collect(published, client)
    assert (done.n_assignments, done.n_new) == (3, 1)


def test_throttling_once_costs_nothing(published, client, turk, throttled):
    turk.work(hit_ids(published)[0], "AWORKER1", FLAT)
    turk.fail_once("ListAssignmentsForHIT", throttled)
    turk.fail_once("ListHITs", throttled)
    assert collect(published, client).n_assignments == 1


def test_a_write_that_fails_leaves_the_old_file_whole(published, client, turk, monkeypatch):
    turk.work(hit_ids(published)[0], "AWORKER1", FLAT)
    collect(published, client)
    before = lines(published)
    turk.work(hit_ids(published)[1], "AWORKER1", FLAT)

    def fail(record):
        raise OSError("no space left on device")

    monkeypatch.setattr("pipeline.mturk.records.json.dumps", fail)
    with pytest.raises(OSError, match="no space"):
        collect(published, client)
    monkeypatch.undo()
    assert lines(published) == before
    assert [path.name for path in (published.folder / "ingested").iterdir()] == ["mturk-sandbox.jsonl"]


def test_a_line_in_the_file_ends_where_a_reader_thinks(published, client, turk):
    text = "a\u2028b\u0085c\nd é"
    turk.work(hit_ids(published)[0], "AWORKER1", {"note": text})
    collect(published, client)
    (record,) = lines(published)
    assert fields_of(record) == {"note": text}


def test_a_study_that_was_not_published_says_so(study, client):
    with pytest.raises(AssayError, match="nothing of study pilot was published in the sandbox"):
        collect(study, client)


def test_nothing_handed_in_writes_no_file(published, client):
    done = collect(published, client)
    assert (done.n_assignments, done.n_open) == (0, 3)
    assert not done.file.exists()


@pytest.mark.parametrize("line", ["{", "[]", '{"AssignmentId": "3A"}', "null"])
def test_a_damaged_line_is_named_and_nothing_is_overwritten(published, client, turk, line):
    turk.work(hit_ids(published)[0], "AWORKER1", FLAT)
    path = collect(published, client).file
    damaged = f"{path.read_text()}{line}\n"
    path.write_text(damaged)
    with pytest.raises(AssayError, match=r"mturk-sandbox\.jsonl, line 2 is no assignment"):
        collect(published, client)
    assert path.read_text() == damaged


def test_production_is_kept_in_a_file_of_its_own(published, client, turk):
    live = turk.attach(connect(live=True))
    turk.work(hit_ids(published)[0], "AWORKER1", FLAT)
    assert collect(published, live).file.name == "mturk-production.jsonl"
    assert not (published.folder / "ingested" / "mturk-sandbox.jsonl").exists()
