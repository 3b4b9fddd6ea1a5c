"""Each call of MTurk as it goes out and comes back; botocore's Stubber holds both against its model."""

from datetime import UTC, datetime

import pytest
from botocore.stub import ANY, Stubber

from pipeline.errors import AssayError
from pipeline.mturk.client import connect
from pipeline.mturk.collecting import collect
from pipeline.mturk.expiring import expire
from pipeline.mturk.listing import annotation
from pipeline.mturk.publishing import Options, publish
from pipeline.mturk.reviewing import review
from pipeline.mturk.state import Hit, write_hits

HIT_ID = "3TVRFO09GKFP5KC30RT2ZDWJPJSLXC"
OTHER_ID = "3OTHER0000000000000000000000AB"
CREATED = datetime(2025, 10, 9, 7, 30, 20, tzinfo=UTC)
HIT = {
    "HITId": HIT_ID,
    "HITTypeId": "3GQNYPMVPC9H0WUV6ZVJ1R5ZQY9YQ3",
    "HITGroupId": "3KSVW1F2QW0RPFZ5D4ONRT0WMJ3LDI",
    "CreationTime": CREATED,
    "Title": "a title",
    "Description": "a description",
    "Question": "<HTMLQuestion/>",
    "HITStatus": "Assignable",
    "MaxAssignments": 3,
    "Reward": "0.06",
    "AutoApprovalDelayInSeconds": 259200,
    "Expiration": datetime(2999, 1, 1, tzinfo=UTC),
    "AssignmentDurationInSeconds": 1800,
    "QualificationRequirements": [],
    "HITReviewStatus": "NotReviewed",
    "NumberOfAssignmentsPending": 0,
    "NumberOfAssignmentsAvailable": 3,
    "NumberOfAssignmentsCompleted": 0,
}
ASSIGNMENT = {
    "AssignmentId": "3DYGAII7PL86BLTU3YN1ZS3DKZIQPM",
    "WorkerId": "A2FTSX85RNZP8S",
    "HITId": HIT_ID,
    "AssignmentStatus": "Submitted",
    "AutoApprovalTime": datetime(2025, 10, 12, 7, 31, 21, tzinfo=UTC),
    "AcceptTime": CREATED,
    "SubmitTime": datetime(2025, 10, 9, 7, 31, 21, tzinfo=UTC),
    "Answer": "<QuestionFormAnswers/>",
}
LIST = {"MaxResults": 100}
ASSIGNMENTS = {
    "HITId": HIT_ID,
    "AssignmentStatuses": ["Submitted", "Approved", "Rejected"],
    "MaxResults": 100,
}


@pytest.fixture
def one_task(make_study):
    return make_study(n_tasks=1)


@pytest.fixture
def task(one_task):
    return one_task.tasks["task_id"][0]


@pytest.fixture(scope="module")
def plain_client(tmp_path_factory):
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        yield connect(live=False)


@pytest.fixture
def stubber(plain_client):
    with Stubber(plain_client) as stubber:
        yield stubber
        stubber.assert_no_pending_responses()


@pytest.fixture
def published(one_task, task):
    write_hits(one_task, "sandbox", {task: Hit(HIT_ID, "", "", "")})
    return one_task


@pytest.fixture
def listed(task):
    return {"NumResults": 1, "HITs": [HIT | {"RequesterAnnotation": annotation("pilot", task)}]}


def test_publishing_lists_asks_for_the_balance_and_creates(one_task, task, stubber):
    stubber.add_response("list_hits", {"NumResults": 0, "HITs": []}, LIST)
    stubber.add_response("get_account_balance", {"AvailableBalance": "10000.00"}, {})
    stubber.add_response(
        "create_hit",
        {"HIT": HIT},
        {
            "MaxAssignments": 3,
            "AutoApprovalDelayInSeconds": 172_800,
            "LifetimeInSeconds": 864_000,
            "AssignmentDurationInSeconds": 900,
            "Reward": "0.06",
            "Title": "a title",
            "Keywords": "a, b",
            "Description": "a description",
            "Question": ANY,
            "RequesterAnnotation": f"assay:pilot:{task}",
            "UniqueRequestToken": f"pilot-{task}",
            "QualificationRequirements": [
                {
                    "QualificationTypeId": "000000000000000000L0",
                    "Comparator": "GreaterThanOrEqualTo",
                    "IntegerValues": [95],
                    "ActionsGuarded": "Accept",
                },
                {
                    "QualificationTypeId": "00000000000000000071",
                    "Comparator": "In",
                    "LocaleValues": [{"Country": "US"}],
                    "ActionsGuarded": "Accept",
                },
            ],
        },
    )
    options = Options(
        title="a title",
        description="a description",
        keywords="a, b",
        lifetime_days=10,
        duration_minutes=15,
        auto_approval_days=2,
        min_approval_percent=95,
        countries=("US",),
    )
    assert publish(one_task, stubber.client, options, confirm=lambda plan: True).n_created == 1


def test_a_repeated_token_leads_to_the_hit_it_made(one_task, task, stubber):
    own = HIT | {"RequesterAnnotation": annotation("pilot", task)}
    stubber.add_response("list_hits", {"NumResults": 0, "HITs": []}, LIST)
    stubber.add_response("get_account_balance", {"AvailableBalance": "1.00"}, {})
    stubber.add_client_error(
        "create_hit",
        "RequestError",
        f"Request {OTHER_ID}: a HIT with this token exists: {HIT_ID}",
        400,
        modeled_fields={"TurkErrorCode": "AWS.MechanicalTurk.HitAlreadyExists"},
    )
    stubber.add_response("get_hit", {"HIT": HIT | {"HITId": OTHER_ID}}, {"HITId": OTHER_ID})
    stubber.add_response("get_hit", {"HIT": own}, {"HITId": HIT_ID})
    publish(one_task, stubber.client, Options(), confirm=lambda plan: True)
    assert f'"hit_id": "{HIT_ID}"' in (one_task.folder / "mturk.json").read_text()


def test_collecting_asks_for_all_statuses_page_by_page(published, listed, stubber):
    other = ASSIGNMENT | {"AssignmentId": "3OTHER", "AssignmentStatus": "Rejected", "RejectionTime": CREATED}
    stubber.add_response("list_hits", listed, LIST)
    stubber.add_response(
        "list_assignments_for_hit",
        {"NumResults": 1, "Assignments": [ASSIGNMENT], "NextToken": "more"},
        ASSIGNMENTS,
    )
    stubber.add_response(
        "list_assignments_for_hit",
        {"NumResults": 1, "Assignments": [other]},
        ASSIGNMENTS | {"NextToken": "more"},
    )
    done = collect(published, stubber.client)
    assert (done.n_assignments, done.n_to_review, done.n_open) == (2, 1, 1)


@pytest.mark.parametrize("turk_code", ["AWS.MechanicalTurk.HITDoesNotExist", ""])
def test_a_hit_that_mturk_has_no_more_is_passed_over(published, stubber, turk_code):
    stubber.add_response("list_hits", {"NumResults": 0, "HITs": []}, LIST)
    stubber.add_client_error(
        "list_assignments_for_hit",
        "RequestError",
        f"Hit {HIT_ID} does not exist. (1657421793250 s)",
        400,
        modeled_fields={"TurkErrorCode": turk_code},
    )
    assert collect(published, stubber.client).n_gone == 1


def reviewed(published, stubber, tmp_path, row, status, call, asked, listed):
    path = tmp_path / "decisions.csv"
    path.write_text(f"AssignmentId,Approve,Reject\n{ASSIGNMENT['AssignmentId']},{row}\n")
    found = {"NumResults": 1, "Assignments": [ASSIGNMENT | {"AssignmentStatus": status}]}
    stubber.add_response("list_hits", listed, LIST)
    stubber.add_response("list_assignments_for_hit", found, ASSIGNMENTS)
    stubber.add_response(call, {}, {"AssignmentId": ASSIGNMENT["AssignmentId"], **asked})
    stubber.add_response("list_assignments_for_hit", found, ASSIGNMENTS)
    return review(published, stubber.client, path)


def test_approving_work(published, stubber, tmp_path, listed):
    asked = {"OverrideRejection": False}
    done = reviewed(published, stubber, tmp_path, "x,", "Submitted", "approve_assignment", asked, listed)
    assert done.n_approved == 1


def test_overriding_a_rejection(published, stubber, tmp_path, listed):
    asked = {"OverrideRejection": True}
    done = reviewed(published, stubber, tmp_path, "x,", "Rejected", "approve_assignment", asked, listed)
    assert done.n_overridden == 1


def test_rejecting_work_sends_the_reason(published, stubber, tmp_path, listed):
    asked = {"RequesterFeedback": "no image was marked"}
    row = ",no image was marked"
    done = reviewed(published, stubber, tmp_path, row, "Submitted", "reject_assignment", asked, listed)
    assert done.n_rejected == 1


def test_a_decision_that_came_too_late_asks_for_the_status(published, stubber, tmp_path, listed):
    path = tmp_path / "decisions.csv"
    path.write_text(f"AssignmentId,Approve,Reject\n{ASSIGNMENT['AssignmentId']},,idle\n")
    found = {"NumResults": 1, "Assignments": [ASSIGNMENT]}
    stubber.add_response("list_hits", listed, LIST)
    stubber.add_response("list_assignments_for_hit", found, ASSIGNMENTS)
    message = "This operation can be called with a status of: Submitted (1537741087056)"
    stubber.add_client_error("reject_assignment", "RequestError", message, 400)
    approved = {"Assignment": ASSIGNMENT | {"AssignmentStatus": "Approved"}, "HIT": HIT}
    asked = {"AssignmentId": ASSIGNMENT["AssignmentId"]}
    stubber.add_response("get_assignment", approved, asked)
    stubber.add_response("list_assignments_for_hit", found, ASSIGNMENTS)
    assert review(published, stubber.client, path).too_late == (ASSIGNMENT["AssignmentId"],)


def test_closing_a_task_sets_its_expiration_to_now(published, listed, stubber):
    stubber.add_response("list_hits", listed, LIST)
    stubber.add_response("update_expiration_for_hit", {}, {"HITId": HIT_ID, "ExpireAt": ANY})
    assert expire(published, stubber.client).n_expired == 1


def test_an_account_that_is_not_linked_is_explained(published, stubber):
    message = "To use the MTurk API, you will need an Amazon Web Services (AWS) Account."
    stubber.add_client_error("list_hits", "RequestError", message, 400)
    with pytest.raises(AssayError, match="listing the HITs in the sandbox: MTurk says RequestError: To use"):
        collect(published, stubber.client)
