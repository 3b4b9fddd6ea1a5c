"""MTurk in this process: it answers boto3's own requests, and a study to publish there."""

import json
import re
from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from html import escape
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from botocore import xform_name
from botocore.awsrequest import AWSResponse
from botocore.exceptions import ReadTimeoutError
from botocore.validate import ParamValidator
from defusedxml import ElementTree

from pipeline.mturk.client import connect
from pipeline.study.asked import input_id, task_id
from pipeline.study.cost import bill
from pipeline.study.frozen import FrozenStudy
from pipeline.study.pages import page
from pipeline.study.settings import StudySettings, write_settings

ENTITY = re.compile("[A-Z0-9]{1,64}")
ANSWERS = (
    "http://mechanicalturk.amazonaws.com/AWSMechanicalTurkDataSchemas/2005-10-01/QuestionFormAnswers.xsd"
)
THROTTLED = (400, "ThrottlingException", None, "Rate exceeded")
FAULT = (500, "ServiceFault", "AWS.ServiceUnavailable", "temporarily unable to process your request")


class RefusedError(Exception):
    """What MTurk answers where it does not do what was asked."""

    def __init__(self, turk_code, message, code="RequestError", status=400):
        super().__init__(message)
        self.answer = (status, code, turk_code, message)


class FakeMTurk:
    """A requester's account: HITs, assignments, a balance. Requests and answers fit the service model."""

    def __init__(self, balance="10000.00"):
        self.balance = Decimal(balance)
        self.hits, self.assignments, self.tokens = {}, {}, {}
        self.calls, self.urls, self.failing = Counter(), set(), []
        self.requests = []

    def attach(self, client):
        self.model = client.meta.service_model
        client.meta.events.register("before-send.mturk", self.answer)
        return client

    @contextmanager
    def failure(self, operation, how, after=0):
        """Fail an operation for good, once `after` calls of it have passed."""
        self.failing.append([operation, how, after, None])
        yield
        self.failing.clear()

    def fail_once(self, operation, how):
        self.failing.append([operation, how, 0, 1])

    def answer(self, request, **_):
        self.urls.add(request.url.rstrip("/"))
        operation = request.headers["X-Amz-Target"].decode().rpartition(".")[2]
        params = json.loads(request.body)
        self.calls[operation] += 1
        self.requests.append((operation, params))
        how = self._failing(operation)
        if how and how != "lost":
            return respond(request, *error_body(*how))
        try:
            result = getattr(self, f"do_{xform_name(operation)}")(params)
        except RefusedError as refused:
            return respond(request, *error_body(*refused.answer))
        self._require_fit(result, self.model.operation_model(operation).output_shape)
        if how == "lost":
            raise ReadTimeoutError(endpoint_url=request.url)
        return respond(request, 200, json.dumps(result, default=datetime.timestamp))

    def _failing(self, operation):
        for failing in self.failing:
            name, how, after, left = failing
            if name != operation:
                continue
            if after:
                failing[2] -= 1
                return None
            if left == 1:
                self.failing.remove(failing)
            return how
        return None

    def _require_fit(self, result, shape):
        report = ParamValidator().validate(result, shape)
        assert not report.has_errors(), report.generate_report()
        ids = re.findall(
            r'"(?:HIT|HITType|HITGroup|Assignment|Worker)Id": "([^"]*)"', json.dumps(result, default=str)
        )
        assert all(ENTITY.fullmatch(name) for name in ids)

    def do_get_account_balance(self, asked):
        return {"AvailableBalance": f"{self.balance:.2f}"}

    def do_create_hit(self, asked):
        require_legal_hit(asked)
        token = asked["UniqueRequestToken"]
        if token in self.tokens:
            raise RefusedError(
                "AWS.MechanicalTurk.HITAlreadyExists",
                f"HIT {self.tokens[token]} was created with this token before. (1760000000000)",
            )
        cost = bill(1, asked["MaxAssignments"], float(asked["Reward"])).total
        if cost > self.balance:
            raise RefusedError(
                "AWS.MechanicalTurk.InsufficientFunds", "This Requester has insufficient funds"
            )
        self.balance -= cost
        number = len(self.tokens)
        hit_id = f"3HIT{number:026d}"
        self.tokens[token] = hit_id
        now = datetime.now(UTC)
        keep = (
            "Title",
            "Description",
            "Keywords",
            "Question",
            "Reward",
            "MaxAssignments",
            "RequesterAnnotation",
        )
        seconds = ("AutoApprovalDelayInSeconds", "AssignmentDurationInSeconds")
        self.hits[hit_id] = {
            "HITId": hit_id,
            "HITTypeId": "3TYPE00000000000000000000000AB",
            "HITGroupId": "3GROUP0000000000000000000000AB",
            "CreationTime": now + timedelta(milliseconds=number),
            "Expiration": now + timedelta(seconds=asked["LifetimeInSeconds"]),
            "HITReviewStatus": "NotReviewed",
            "QualificationRequirements": asked["QualificationRequirements"],
            **{name: asked[name] for name in (*keep, *seconds)},
        }
        self.assignments[hit_id] = []
        return {"HIT": self._shown(hit_id)}

    def _shown(self, hit_id):
        hit = self.hits[hit_id]
        free = hit["MaxAssignments"] - len(self.assignments[hit_id])
        status = "Assignable" if free and hit["Expiration"] > datetime.now(UTC) else "Reviewable"
        return hit | {
            "HITStatus": status,
            "NumberOfAssignmentsPending": 0,
            "NumberOfAssignmentsAvailable": free,
            "NumberOfAssignmentsCompleted": 0,
        }

    def _hit(self, hit_id):
        if hit_id not in self.hits:
            raise RefusedError(
                "AWS.MechanicalTurk.HITDoesNotExist", f"Hit {hit_id} does not exist. (1760000000000 s)"
            )
        return self.hits[hit_id]

    def do_get_hit(self, asked):
        self._hit(asked["HITId"])
        return {"HIT": self._shown(asked["HITId"])}

    def do_list_hits(self, asked):
        newest_first = [self._shown(hit_id) for hit_id in reversed(self.hits)]
        return paged("HITs", newest_first, asked)

    def do_list_assignments_for_hit(self, asked):
        self._hit(asked["HITId"])
        wanted = asked["AssignmentStatuses"]
        found = [one for one in self.assignments[asked["HITId"]] if one["AssignmentStatus"] in wanted]
        return paged("Assignments", found, asked)

    def _assignment(self, assignment_id):
        for hit_id, found in self.assignments.items():
            for one in found:
                if one["AssignmentId"] == assignment_id and hit_id in self.hits:
                    return one
        raise RefusedError(
            "AWS.MechanicalTurk.AssignmentDoesNotExist", f"Assignment {assignment_id} does not exist."
        )

    def do_get_assignment(self, asked):
        one = self._assignment(asked["AssignmentId"])
        return {"Assignment": one, "HIT": self._shown(one["HITId"])}

    def do_approve_assignment(self, asked):
        one = self._assignment(asked["AssignmentId"])
        allowed = ("Submitted", "Rejected") if asked.get("OverrideRejection") else ("Submitted",)
        self._decide(one, "Approved", "ApprovalTime", allowed)
        one.pop("RejectionTime", None)
        return {}

    def do_reject_assignment(self, asked):
        one = self._assignment(asked["AssignmentId"])
        self._decide(one, "Rejected", "RejectionTime", ("Submitted",))
        one["RequesterFeedback"] = asked["RequesterFeedback"]
        return {}

    def _decide(self, one, status, when, allowed):
        if one["AssignmentStatus"] not in allowed:
            raise RefusedError(
                "AWS.MechanicalTurk.InvalidAssignmentState",
                "This operation can be called with a status of: Submitted (1760000000000)",
            )
        one |= {"AssignmentStatus": status, when: datetime.now(UTC)}

    def do_update_expiration_for_hit(self, asked):
        self._hit(asked["HITId"])["Expiration"] = datetime.fromtimestamp(asked["ExpireAt"], UTC)
        return {}

    def work(self, hit_id, worker, fields):
        """Let a worker hand in `fields` (name to text) for a HIT."""
        now = datetime(2025, 10, 9, 7, 30, 20, tzinfo=UTC)
        number = sum(map(len, self.assignments.values()))
        one = {
            "AssignmentId": f"3ASN{number:026d}",
            "WorkerId": worker,
            "HITId": hit_id,
            "AssignmentStatus": "Submitted",
            "AutoApprovalTime": now + timedelta(days=3),
            "AcceptTime": now,
            "SubmitTime": now + timedelta(seconds=61),
            "Answer": answer_xml(fields),
        }
        self.assignments[hit_id].append(one)
        return one

    def delete(self, hit_id):
        """Forget a HIT and its assignments, as MTurk does in time."""
        del self.hits[hit_id]

    @property
    def n_created(self):
        return len(self.tokens)


def paged(name, found, asked):
    size, start = asked.get("MaxResults", 10), int(asked.get("NextToken", "p0")[1:])
    assert 1 <= size <= 100
    more = {"NextToken": f"p{start + size}"} if start + size < len(found) else {}
    part = found[start : start + size]
    return {name: part, "NumResults": len(part), **more}


def require_legal_hit(asked):
    assert len(asked["Question"].encode()) <= 65_535
    root = ElementTree.fromstring(asked["Question"].encode())
    assert [child.tag.rpartition("}")[2] for child in root] == ["HTMLContent", "FrameHeight"]
    assert re.fullmatch(r"\d+\.\d\d", asked["Reward"])
    assert len(asked["UniqueRequestToken"]) <= 64 and len(asked["RequesterAnnotation"]) <= 255
    assert 30 <= asked["LifetimeInSeconds"] <= 31_536_000
    assert 30 <= asked["AssignmentDurationInSeconds"] <= 31_536_000
    assert 0 <= asked["AutoApprovalDelayInSeconds"] <= 2_592_000


def answer_xml(fields):
    answers = "".join(
        f"<Answer><QuestionIdentifier>{escape(name)}</QuestionIdentifier><FreeText>{escape(text)}</FreeText></Answer>"
        for name, text in fields.items()
    )
    head = f'<?xml version="1.0" encoding="ASCII"?><QuestionFormAnswers xmlns="{ANSWERS}">'
    return f"{head}{answers}</QuestionFormAnswers>"


def error_body(status, code, turk_code, message):
    extra = {"TurkErrorCode": turk_code} if turk_code else {}
    return status, json.dumps({"__type": code, "Message": message, **extra})


def respond(request, status, body):
    raw = SimpleNamespace(stream=lambda *_, **__: iter([body.encode()]))
    return AWSResponse(request.url, status, {"content-type": "application/x-amz-json-1.1"}, raw)


TEXTS = ("a red circle", '<script>alert("1")</script>', "stripes ]]> & dots", "café, \u2028 seen twice")


def write_tasks(folder: Path, n_tasks: int, study: str, url: str, size: int, first: int = 0) -> None:
    """Write tasks.csv of a study; tasks of one text, the last slot of each left empty."""
    rows = []
    for number in range(n_tasks):
        text = TEXTS[number % len(TEXTS)]
        images = [f"image{number:04d}-{j}" for j in range(size - 1)]
        ids = [*(input_id(image, text) for image in images), ""]
        row = {
            "task_id": task_id(ids),
            "study": study if number >= first else "first",
            "description": text,
            "description_html": escape(text),
            "part": "dataset/arch/layer/method",
            "unit": "7",
            "method": "method",
        }
        for j, one in enumerate(ids):
            row |= {
                f"image_url{j}": f"{url}{images[j]}.png" if one else "",
                f"input_id{j}": one,
                f"weight{j}": "1.5" if one else "",
                f"multiplicity{j}": "1" if one else "",
            }
        rows.append(row)
    pd.DataFrame(rows).to_csv(folder / "tasks.csv", index=False)


@pytest.fixture
def make_study(tmp_path: Path) -> Callable[..., FrozenStudy]:
    """Return a maker of studies, by name: what publishing and collecting read of one."""

    def make(
        n_tasks=3, name="pilot", url="https://images.example/", size=15, first=0, **settings
    ) -> FrozenStudy:
        folder = tmp_path / "studies" / name
        folder.mkdir(parents=True, exist_ok=True)
        write_tasks(folder, n_tasks, name, url, size, first)
        write_settings(folder / "settings.json", StudySettings(inputs_per_task=size, **settings))
        for file in ("task.html", "task_plain.html"):
            (folder / file).write_text(page(file, size), encoding="utf-8")
        return FrozenStudy(folder)

    return make


@pytest.fixture
def study(make_study) -> FrozenStudy:
    return make_study()


@pytest.fixture
def turk() -> FakeMTurk:
    return FakeMTurk()


@pytest.fixture
def throttled():
    return THROTTLED


@pytest.fixture
def fault():
    return FAULT


def keep_away(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Keep the tests away from the user's own account."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, str(folder / "no-such-file"))


@pytest.fixture(autouse=True)
def no_account_and_no_waiting(monkeypatch, tmp_path):
    keep_away(monkeypatch, tmp_path)
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda seconds: None)


@pytest.fixture(scope="module")
def sandbox_client(tmp_path_factory):
    """A client, made once a module: boto3 takes half a second to make one."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        keep_away(monkeypatch, tmp_path_factory.mktemp("aws"))
        yield connect(live=False)


@pytest.fixture
def client(sandbox_client, turk):
    yield turk.attach(sandbox_client)
    sandbox_client.meta.events.unregister("before-send.mturk", turk.answer)
