from datetime import UTC, datetime

import pytest

from pipeline.errors import AssayError
from pipeline.mturk.collecting import collect
from pipeline.mturk.expiring import expire
from pipeline.mturk.publishing import Options, publish
from pipeline.mturk.state import read_hits


@pytest.fixture
def published(make_study, client):
    study = make_study(n_tasks=3, n_raters=1)
    publish(study, client, Options(), confirm=lambda plan: True)
    return study


def test_no_task_can_be_accepted_any_more(published, client, turk):
    done = expire(published, client)
    assert (done.place, done.n_expired, done.n_closed) == ("sandbox", 3, 0)
    assert all(hit["Expiration"] <= datetime.now(UTC) for hit in turk.hits.values())
    assert collect(published, client).n_open == 0


def test_what_is_closed_already_is_left_alone(published, client, turk):
    first, *_ = read_hits(published, "sandbox").values()
    turk.work(first.hit_id, "AWORKER1", {"image0.on": "true"})
    done = expire(published, client)
    assert (done.n_expired, done.n_closed) == (2, 1)
    again = expire(published, client)
    assert (again.n_expired, again.n_closed) == (0, 3)
    assert turk.calls["UpdateExpirationForHIT"] == 2


def test_other_studies_stay_open(published, make_study, client, turk):
    other = make_study(n_tasks=2, name="other")
    publish(other, client, Options(), confirm=lambda plan: True)
    expire(published, client)
    assert collect(other, client).n_open == 2


def test_a_failure_says_to_expire_again_and_that_closes_the_rest(published, client, turk, throttled):
    with (
        turk.failure("UpdateExpirationForHIT", throttled, after=1),
        pytest.raises(AssayError, match=r"closing HIT .* expire again"),
    ):
        expire(published, client)
    assert expire(published, client).n_expired == 2


def test_an_expired_study_publishes_nothing_anew(published, client, turk):
    expire(published, client)
    assert publish(published, client, Options(), confirm=lambda plan: True).n_created == 0
