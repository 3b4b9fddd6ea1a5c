import json
import shutil
from decimal import Decimal

import pytest
from botocore.exceptions import EndpointConnectionError
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import AssayError
from pipeline.mturk import publishing, state
from pipeline.mturk.client import connect
from pipeline.mturk.collecting import collect
from pipeline.mturk.publishing import LONGEST_TOKEN, Options, plan_publishing, publish
from pipeline.mturk.state import Hit, read_hits
from pipeline.study.frozen import FrozenStudy


def yes(plan):
    return True


def never(plan):
    raise AssertionError("nothing was to be confirmed")


def publish_all(study, client, **options):
    return publish(study, client, Options(**options), confirm=yes)


def test_each_task_becomes_one_hit_with_the_studys_settings(make_study, client, turk):
    study = make_study(n_tasks=4, n_raters=5, reward=0.06)
    done = publish_all(study, client)
    assert (done.place, done.n_created, done.n_there, done.n_declined) == ("sandbox", 4, 0, 0)
    assert {hit["RequesterAnnotation"] for hit in turk.hits.values()} == {
        f"assay:pilot:{task}" for task in study.tasks["task_id"]
    }
    hit = next(iter(turk.hits.values()))
    assert (hit["MaxAssignments"], hit["Reward"]) == (5, "0.06")
    assert hit["AutoApprovalDelayInSeconds"] == 3 * 86_400
    assert hit["AssignmentDurationInSeconds"] == 1800
    assert done.preview == "https://workersandbox.mturk.com/projects/3GROUP0000000000000000000000AB/tasks"


def test_all_hits_share_what_makes_them_one_group(make_study, client, turk):
    publish_all(make_study(n_tasks=4), client)
    created = [params for operation, params in turk.requests if operation == "CreateHIT"]
    own = {"Question", "RequesterAnnotation", "UniqueRequestToken"}
    assert len({json.dumps({k: v for k, v in c.items() if k not in own}) for c in created}) == 1


def test_mturk_json_holds_every_hit(study, client, turk):
    publish_all(study, client)
    held = json.loads((study.folder / "mturk.json").read_text())
    assert list(held) == ["sandbox"]
    assert list(held["sandbox"]) == list(study.tasks["task_id"])
    assert {entry["hit_id"] for entry in held["sandbox"].values()} == set(turk.hits)
    assert set(held["sandbox"][study.tasks["task_id"][0]]) == {"hit_id", "hit_type_id", "created", "group"}


def test_a_second_call_creates_nothing_and_asks_nothing(study, client, turk):
    publish_all(study, client)
    again = publish(study, client, Options(), confirm=never)
    assert (again.n_created, again.n_there, again.n_adopted) == (0, 3, 0)
    assert turk.calls["CreateHIT"] == 3


def test_a_no_to_the_bill_creates_nothing(study, client, turk):
    done = publish(study, client, Options(), confirm=lambda plan: False)
    assert (done.n_created, done.n_declined, done.preview) == (0, 3, "")
    assert not turk.hits and turk.calls["CreateHIT"] == 0


def test_the_bill_is_shown_before_the_first_hit(make_study, client, turk):
    seen = []

    def look(plan):
        seen.append(plan)
        assert turk.calls["CreateHIT"] == 0
        return True

    publish(make_study(n_tasks=4, n_raters=3, reward=0.06), client, Options(), confirm=look)
    (plan,) = seen
    # 4 tasks x 3 raters x $0.06, and the fee of 20%, $0.012 an assignment.
    assert (plan.bill.n_tasks, plan.bill.n_assignments) == (4, 12)
    assert (plan.bill.reward, plan.bill.fee) == (Decimal("0.72"), Decimal("0.14"))
    assert (plan.place, plan.balance, plan.n_there) == ("sandbox", Decimal("10000.00"), 0)


def test_sandbox_and_production_are_published_apart(study, turk):
    sandbox = publish_all(study, turk.attach(connect(live=False)))
    live = publish_all(study, type(turk)().attach(connect(live=True)))
    assert (sandbox.n_created, live.n_created) == (3, 3)
    assert live.preview.startswith("https://worker.mturk.com/projects/")
    assert len(read_hits(study, "sandbox")) == len(read_hits(study, "production")) == 3


@pytest.mark.parametrize("n_before", [0, 1, 2])
def test_a_crash_between_a_hit_and_its_record_creates_nothing_twice(
    make_study, client, turk, monkeypatch, n_before
):
    study = make_study(n_tasks=3)
    left = iter(range(n_before))
    real = state.write_json

    def die(path, value):
        if next(left, None) is None:
            raise KeyboardInterrupt
        real(path, value)

    monkeypatch.setattr(state, "write_json", die)
    with pytest.raises(KeyboardInterrupt):
        publish_all(study, client)
    assert len(turk.hits) == n_before + 1 and len(read_hits(study, "sandbox")) == n_before

    monkeypatch.setattr(state, "write_json", real)
    done = publish_all(study, client)
    assert (done.n_adopted, done.n_created) == (1, 2 - n_before)
    assert turk.n_created == len(turk.hits) == turk.calls["CreateHIT"] == 3


def test_a_lost_mturk_json_creates_nothing_twice(make_study, client, turk):
    study = make_study(n_tasks=250, size=2)
    publish_all(study, client)
    before = read_hits(study, "sandbox")
    (study.folder / "mturk.json").unlink()
    done = publish(study, client, Options(), confirm=never)
    assert (done.n_adopted, done.n_there, turk.n_created) == (250, 250, 250)
    assert read_hits(study, "sandbox") == before
    assert turk.calls["ListHITs"] == 1 + 3  # pages of 100


def test_a_hit_that_mturk_deleted_is_known_by_what_was_collected(study, client, turk):
    publish_all(study, client)
    gone = read_hits(study, "sandbox")[study.tasks["task_id"][0]].hit_id
    turk.work(gone, "AWORKER1", {"image0.on": "true"})
    collect(study, client)
    turk.delete(gone)
    (study.folder / "mturk.json").unlink()
    assert publish(study, client, Options(), confirm=never).n_created == 0


def test_hits_of_other_studies_are_left_alone(make_study, client):
    publish_all(make_study(n_tasks=2, name="pilot"), client)
    other = make_study(n_tasks=2, name="pilot2")
    done = publish_all(other, client)
    assert (done.n_adopted, done.n_created) == (0, 2)


def test_an_answer_lost_on_the_way_creates_nothing_twice(study, client, turk):
    turk.fail_once("CreateHIT", "lost")
    done = publish_all(study, client)
    assert done.n_created == 3 and turk.n_created == len(turk.hits) == 3
    assert turk.calls["CreateHIT"] == 4 and turk.calls["GetHIT"] == 1
    assert {hit.hit_id for hit in read_hits(study, "sandbox").values()} == set(turk.hits)


def test_a_repeated_token_without_the_hits_id_is_looked_up_in_the_list(study, client, turk):
    publish_all(study, client)
    before = read_hits(study, "sandbox")
    (study.folder / "mturk.json").unlink()
    repeated = (400, "RequestError", None, 'The idempotency token "x" has already been processed. (17)')
    hits, turk.hits = turk.hits, {}
    turk.do_get_account_balance = lambda asked: turk.hits.update(hits) or {"AvailableBalance": "9.00"}
    with turk.failure("CreateHIT", repeated):
        done = publish_all(study, client)
    assert done.n_adopted == 0 and read_hits(study, "sandbox") == before


def test_a_token_that_mturk_knows_and_does_not_list_yet_says_wait(study, client, turk):
    publish_all(study, client)
    (study.folder / "mturk.json").unlink()
    repeated = (400, "RequestError", "AWS.MechanicalTurk.HITAlreadyExists", "created before")
    turk.hits.clear()
    with turk.failure("CreateHIT", repeated), pytest.raises(AssayError, match="wait a minute"):
        publish_all(study, client)


def test_throttling_for_good_keeps_what_was_created_and_goes_on_later(make_study, client, turk, throttled):
    study = make_study(n_tasks=5)
    with (
        turk.failure("CreateHIT", throttled, after=2),
        pytest.raises(AssayError, match=r"Rate exceeded.*\n2 of 5 tasks were created.*publish again"),
    ):
        publish_all(study, client)
    assert len(read_hits(study, "sandbox")) == len(turk.hits) == 2
    done = publish_all(study, client)
    assert (done.n_created, done.n_there, done.n_adopted) == (3, 2, 0)
    assert turk.n_created == 5


def test_a_broken_network_is_a_message_and_loses_nothing(study, client, turk, monkeypatch):
    def down(asked):
        raise EndpointConnectionError(endpoint_url="https://mturk")

    monkeypatch.setattr(turk, "do_create_hit", down)
    with pytest.raises(AssayError, match=r"Could not connect.*\n0 of 3 tasks"):
        publish_all(study, client)
    monkeypatch.undo()


def test_funds_that_run_out_on_the_way_keep_what_was_created(study, client, turk):
    turk.do_get_account_balance = lambda asked: {"AvailableBalance": "10.00"}
    turk.balance = Decimal("0.30")
    with pytest.raises(AssayError, match=r"InsufficientFunds.*\n1 of 3"):
        publish_all(study, client)
    assert len(read_hits(study, "sandbox")) == 1


def test_a_balance_below_the_bill_is_refused_before_the_first_hit(make_study, client, turk):
    turk.balance = Decimal("0.64")
    study = make_study(n_tasks=3, n_raters=3, reward=0.06)
    with pytest.raises(AssayError, match=r"costs \$0\.65, and the sandbox account has \$0\.64"):
        publish(study, client, Options(), confirm=never)
    assert turk.calls["CreateHIT"] == 0
    turk.balance = Decimal("0.65")
    assert publish(study, client, Options(), confirm=lambda plan: False).n_declined == 3


def test_a_bill_above_max_cost_is_refused(study, client, turk):
    with pytest.raises(AssayError, match=r"\$0\.65, above max_cost=\$0\.64"):
        publish(study, client, Options(max_cost=0.64), confirm=never)
    assert turk.calls["CreateHIT"] == 0
    assert publish_all(study, client, max_cost=0.65).n_created == 3


def test_only_what_is_missing_is_billed(make_study):
    study = make_study(n_tasks=4)
    hits = {study.tasks["task_id"][1]: Hit("3A", "3B", "", "3C")}
    plan = plan_publishing(study, hits, Options(), Decimal(100), "sandbox")
    assert plan.to_create == tuple(study.tasks["task_id"].drop(1))
    assert (plan.n_there, plan.bill.n_tasks) == (1, 3)


def test_ten_raters_cost_the_higher_fee(make_study):
    nine, ten = (make_study(n_tasks=1, name=f"s{n}", n_raters=n, reward=0.10) for n in (9, 10))
    fees = [plan_publishing(s, {}, Options(), Decimal(100), "sandbox").bill.fee for s in (nine, ten)]
    assert fees == [Decimal("0.18"), Decimal("0.40")]


def test_a_reward_of_half_cents_is_refused(make_study, client, turk):
    with pytest.raises(AssayError, match=r"reward=0\.065.*whole cents"):
        publish(make_study(reward=0.065), client, Options(), confirm=never)


def test_an_extended_study_publishes_its_new_tasks_only(make_study, client, turk):
    old = make_study(n_tasks=2, name="first")
    publish_all(old, client)
    longer = make_study(n_tasks=5, name="second", first=2)
    assert list(longer.tasks["task_id"][:2]) == list(old.tasks["task_id"])
    shutil.copy(old.folder / "mturk.json", longer.folder / "mturk.json")
    done = publish_all(longer, client)
    assert (done.n_created, done.n_there, done.n_adopted) == (3, 2, 0)


def test_an_extended_study_finds_its_old_tasks_without_a_state_file(make_study, client, turk):
    publish_all(make_study(n_tasks=2, name="first"), client)
    done = publish_all(make_study(n_tasks=5, name="second", first=2), client)
    assert (done.n_created, done.n_adopted) == (3, 2)


def test_an_old_study_finds_the_tasks_that_its_extension_published(make_study, client, turk):
    old = make_study(n_tasks=2, name="first")
    publish_all(make_study(n_tasks=5, name="second", first=2), client)
    done = publish(old, client, Options(), confirm=never)
    assert (done.n_created, done.n_adopted) == (0, 2)


def test_tasks_added_to_the_same_study_are_the_only_new_hits(make_study, client, turk):
    publish_all(make_study(n_tasks=2), client)
    assert publish_all(make_study(n_tasks=3), client).n_created == 1


def test_two_publishes_at_once_are_refused(study, client):
    def meanwhile(plan):
        with pytest.raises(AssayError, match="another publish"):
            publish(FrozenStudy(study.folder), client, Options(), confirm=never)
        return False

    publish(study, client, Options(), confirm=meanwhile)
    assert publish_all(study, client).n_created == 3


def test_images_that_are_nowhere_on_the_web_are_refused_before_any_hit(make_study, client, turk):
    study = make_study()
    tasks = study.tasks.assign(image_url3="")
    tasks.to_csv(study.folder / "tasks.csv", index=False)
    with pytest.raises(AssayError, match=r"image_url3 is blank.*assay host"):
        publish(FrozenStudy(study.folder), client, Options(), confirm=never)
    assert turk.calls["CreateHIT"] == 0


def test_http_images_are_refused_in_production_before_any_hit(make_study, turk):
    study = make_study(url="http://images.example/")
    assert publish_all(study, turk.attach(connect(live=False))).n_created == 3
    with pytest.raises(AssayError, match="mixed content"):
        publish(study, type(turk)().attach(connect(live=True)), Options(), confirm=never)


def test_the_plain_layout_sends_the_plain_page(study, client, turk):
    publish_all(study, client, layout="plain")
    questions = [hit["Question"] for hit in turk.hits.values()]
    assert all("externalSubmit" in question and "crowd-form" not in question for question in questions)


def test_the_crowd_layout_sends_the_crowd_page(study, client, turk):
    publish_all(study, client)
    assert all("<crowd-form" in hit["Question"] for hit in turk.hits.values())


def test_a_page_that_is_gone_is_named(study, client):
    (study.folder / "task.html").unlink()
    with pytest.raises(AssayError, match=r"task\.html is not there"):
        publish(study, client, Options(), confirm=never)


def test_qualifications_are_mturks_own(study, client, turk):
    publish_all(study, client, min_approval_percent=98, countries=("US", "DE"))
    (hit, *_) = turk.hits.values()
    assert hit["QualificationRequirements"] == [
        {
            "QualificationTypeId": "000000000000000000L0",
            "Comparator": "GreaterThanOrEqualTo",
            "IntegerValues": [98],
            "ActionsGuarded": "Accept",
        },
        {
            "QualificationTypeId": "00000000000000000071",
            "Comparator": "In",
            "LocaleValues": [{"Country": "US"}, {"Country": "DE"}],
            "ActionsGuarded": "Accept",
        },
    ]


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"lifetime_days": 0}, "lifetime_days=0: MTurk takes 1 to 365"),
        ({"auto_approval_days": 31}, "auto_approval_days=31: MTurk takes 0 to 30"),
        ({"min_approval_percent": 101}, "min_approval_percent=101"),
        ({"duration_minutes": 0}, "duration_minutes=0"),
        ({"title": ""}, "title has 0 characters"),
        ({"title": "x" * 129}, "title has 129 characters"),
        ({"countries": ("USA",)}, "'USA' is no code"),
        ({"layout": "grid"}, "layout='grid': there are crowd, plain"),
    ],
)
def test_an_option_out_of_bounds_is_named(option, message):
    with pytest.raises(AssayError, match=message):
        Options(**option)


@given(st.text(min_size=1, max_size=120), st.text(min_size=1, max_size=120))
def test_a_request_token_fits_mturk_and_tells_studies_apart(one, other):
    tokens = [publishing._token(name, "t0123456789ab") for name in (one, other)]
    assert all(1 <= len(token) <= LONGEST_TOKEN and token.isascii() for token in tokens)
    assert (tokens[0] == tokens[1]) == (one == other)


@pytest.mark.parametrize("text", ["{", "[]", '{"sandbox": {"t1": {"hit": 1}}}', '{"sandbox": []}'])
def test_a_damaged_mturk_json_is_named_and_nothing_is_created(study, client, turk, text):
    (study.folder / "mturk.json").write_text(text)
    with pytest.raises(AssayError, match=r"mturk\.json is damaged: move it away"):
        publish(study, client, Options(), confirm=never)
    assert turk.calls["CreateHIT"] == 0
