import itertools
import json

import pytest

from pipeline.rating import dashboard
from pipeline.rating.dashboard import Dashboard, facts


def ids(assignment):
    return [each["id"] for each in assignment["inputs"]]


def rate(world, rater, marked, seconds=30.0):
    """Submit the rater's open assignment, marking the first `marked` inputs by id."""
    assignment = world.state(rater)["assignment"]
    world.submit(rater, assignment, sorted(ids(assignment))[:marked], seconds)


def test_nothing_rated_yet_is_shown_as_unknown(world):
    found = facts(world.page)
    assert (found["study"], found["n_raters"], found["ratings"], found["elsewhere"]) == ("small", 3, 0, 0)
    assert found["inputs"] == {"total": 160, "by_ratings": [160, 0, 0, 0], "complete": 0, "stopped": 0}
    assert found["agreement"] == {"raw": None, "alpha": None}
    assert found["saved"] == {"adaptive": False, "ratings": 0, "share": 0.0}
    rater = world.raters[1]
    assert found["raters"][1] == {
        "label": "rater-2", "link": f"/r/{rater.token}", "assignments": 0, "ratings": 0, "seconds": None,
        "yes": None, "agreement": None, "checks_right": 0, "checks": 0, "seen": None, "open": False,
        "flags": [],
    }  # fmt: skip


def test_progress_agreement_and_raters_by_hand(make_world):
    world = make_world(titles=["a cat"], n_images=10, n_raters=3, inputs_per_task=10)
    first, second, third = world.raters
    rate(world, first, marked=4, seconds=10)
    rate(world, second, marked=6, seconds=30)
    world.state(third)
    found = facts(world.page)
    assert found["inputs"] == {"total": 10, "by_ratings": [0, 0, 10, 0], "complete": 0, "stopped": 0}
    assert found["ratings"] == 20
    assert found["agreement"]["raw"] == pytest.approx(0.8)
    # Two raters, 10 inputs: 10 yes of 20, two disagreements: 1 - 19 * 2 * 2 / (2 * 10 * 10).
    assert found["agreement"]["alpha"] == pytest.approx(1 - 19 * 4 / 200)
    by_label = {rater["label"]: rater for rater in found["raters"]}
    assert [r["label"] for r in found["raters"]] == ["rater-1", "rater-2", "rater-3"]
    assert by_label["rater-1"]["yes"] == pytest.approx(0.4)
    assert by_label["rater-2"]["agreement"] == pytest.approx(0.8)
    assert by_label["rater-2"]["seconds"] == 30
    assert (by_label["rater-3"]["open"], by_label["rater-1"]["open"]) == (True, False)
    assert by_label["rater-3"]["seen"] == "2023-11-14T22:13:20Z"
    json.dumps(found, allow_nan=False)


def test_the_fast_and_those_who_never_mark_are_flagged_after_two_tasks(make_world):
    world = make_world(titles=["a cat"], n_images=30, n_raters=3)
    fast, idle, honest = world.raters
    for _ in range(2):
        flags = [rater["flags"] for rater in facts(world.page)["raters"]]
        assert flags == [[], [], []]
        rate(world, fast, marked=3, seconds=2)
        rate(world, idle, marked=0, seconds=60)
        rate(world, honest, marked=1, seconds=60)
    assert [rater["flags"] for rater in facts(world.page)["raters"]] == [["fast"], ["all no"], []]


def test_checks_are_counted_apart_and_a_failed_one_is_flagged(make_world):
    world = make_world(titles=["a cat"], n_images=10, checks=[("a cat", "yes")])
    inputs = world.page.study.inputs
    check = inputs.loc[inputs["answer"] != "", "input_id"].item()
    for rater, marks in zip(world.raters, ([check], [], [check]), strict=True):
        world.submit(rater, world.state(rater)["assignment"], marks)
    found = facts(world.page)
    assert found["ratings"] == 30
    assert found["inputs"]["total"] == found["inputs"]["complete"] == 10
    assert [(r["checks_right"], r["checks"]) for r in found["raters"]] == [(1, 1), (0, 1), (1, 1)]
    assert [r["flags"] for r in found["raters"]] == [[], ["failed a check"], []]
    assert {r["yes"] for r in found["raters"]} == {0.0}


def test_the_page_shows_the_facts_as_text(make_world):
    world = make_world(titles=["a cat"])
    page = world.client.get(f"/owner/{world.store.owner_token}")
    assert page.status_code == 200
    assert "rater-3" in page.text


def test_facts_are_fresh_unless_they_take_long(world, monkeypatch):
    made = itertools.count(1)
    shown = Dashboard(world.page)
    monkeypatch.setattr(dashboard, "facts", lambda page: {"made": next(made)})
    assert [shown.facts()["made"] for _ in range(3)] == [1, 2, 3]
    monkeypatch.setattr(dashboard, "SLOW_SECONDS", -1.0)
    monkeypatch.setattr(dashboard, "SHARE", 1e-12)
    assert shown.facts() == {"made": 3}
