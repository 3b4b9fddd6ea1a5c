"""What raters get and what becomes of their answers, without the HTTP."""

import csv
import json
import sqlite3
from collections import Counter
from io import StringIO

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.crowd.aggregation import bragg
from pipeline.errors import AssayError
from pipeline.ingest.ingesting import ingest_into
from pipeline.rating.dashboard import facts as owner_facts
from pipeline.rating.export import export_ratings
from pipeline.rating.page import RefusedError
from pipeline.rating.store import Store


def exported(world):
    world.folder.joinpath("out.csv").unlink(missing_ok=True)
    n_rows = export_ratings(world.folder, world.folder / "out.csv")
    rows = list(csv.DictReader(StringIO((world.folder / "out.csv").read_bytes().decode(), newline="")))
    assert len(rows) == n_rows
    pages = {row["worker"].partition("@")[2] for row in rows}
    assert len(pages) == 1 or not rows
    assert all(len(page) == 6 for page in pages)
    return [row | {"worker": row["worker"].partition("@")[0]} for row in rows]


def ids(assignment):
    return [each["id"] for each in assignment["inputs"]]


def rate_all(world, raters=None, answer=lambda rater, input_id: False):
    """Let raters take turns until nobody gets anything more; return each one's last state."""
    raters = raters or world.raters
    states = {rater: world.state(rater) for rater in raters}
    while any(state["assignment"] for state in states.values()):
        for rater, state in states.items():
            if state["assignment"]:
                marks = [i for i in ids(state["assignment"]) if answer(rater, i)]
                states[rater] = world.submit(rater, state["assignment"], marks)["state"]
    return {rater: world.state(rater) for rater in raters}


def test_a_first_look_gives_fifteen_inputs_of_one_description(world):
    state = world.state(world.raters[0])
    assert state["status"] == "rate"
    assert state["rater"] == "rater-1"
    assert state["progress"] == {"tasks_done": 0, "ratings_done": 0, "inputs_left": 160}
    assert state["can_reopen"] is False
    assignment = state["assignment"]
    assert (assignment["number"], assignment["version"], assignment["marks"]) == (1, 0, [])
    descriptions = world.page.study.inputs.set_index("input_id")["description"]
    assert len(set(ids(assignment))) == 15
    assert set(descriptions[ids(assignment)]) == {assignment["description"]}


def test_looking_again_gives_the_same_assignment(world):
    rater = world.raters[0]
    first = world.state(rater)
    assert world.state(rater) == first
    assert world.restart().state(rater) == first


def test_marked_is_yes_and_unmarked_is_no(world):
    rater = world.raters[0]
    assignment = world.state(rater)["assignment"]
    world.submit(rater, assignment, [ids(assignment)[3], ids(assignment)[3]], seconds=12.25)
    rows = exported(world)
    assert [row["input_id"] for row in rows] == ids(assignment)
    assert {row["input_id"] for row in rows if row["rating"] == "yes"} == {ids(assignment)[3]}
    assert {row["rating"] for row in rows} == {"yes", "no"}
    inputs = world.page.study.asked.inputs
    for row in rows:
        assert (row["image_id"], row["description"]) == (
            inputs[row["input_id"]].image_id,
            inputs[row["input_id"]].description,
        )
        assert (row["worker"], row["assignment"]) == ("rater-1", f"page-{assignment['id']}")
        assert (row["status"], row["task"], row["seconds"]) == ("Submitted", "", "12.25")
        assert row["submitted"] == "2023-11-14T22:13:20Z"


def test_ingest_reads_the_export_whole(world, tmp_path):
    rate_all(world, answer=lambda rater, input_id: input_id < "i8" and rater.id != 2)
    rows = exported(world)
    ingest_into(world.folder, [world.folder / "out.csv"])
    table = pd.read_parquet(world.folder / "ratings.parquet")
    known = ["worker", "assignment", "image_id", "description", "rating", "seconds"]
    table["worker"] = table["worker"].str.partition("@")[0]
    found = table[known].itertuples(index=False, name=None)
    assert Counter(found) == Counter(
        (row["worker"], row["assignment"], row["image_id"], row["description"], row["rating"] == "yes", 20.0)
        for row in rows
    )
    restarted = world.restart()
    assert restarted.page.counts.elsewhere.sum() == 0
    restarted.store.close()


def test_every_input_gets_its_ratings_each_rater_once(world):
    states = rate_all(world)
    rows = exported(world)
    assert set(Counter(row["input_id"] for row in rows).values()) == {3}
    assert len({(row["worker"], row["input_id"]) for row in rows}) == len(rows) == 480
    assert {state["status"] for state in states.values()} == {"done"}
    assert {state["progress"]["inputs_left"] for state in states.values()} == {0}


def test_a_second_submission_changes_nothing(world):
    rater = world.raters[0]
    assignment = world.state(rater)["assignment"]
    first = world.submit(rater, assignment, ids(assignment)[:2])
    before = exported(world)
    for marks in (ids(assignment)[:2], ids(assignment)[5:9], []):
        again = world.submit(rater, assignment, marks)
        assert again["already"] is True
        assert again["submitted"] is True
        assert again["state"] == first["state"]
    assert exported(world) == before
    assert "already" not in first


def test_an_older_draft_never_overwrites_a_newer(world):
    rater = world.raters[0]
    assignment = world.state(rater)["assignment"]
    a, b = ids(assignment)[:2]
    assert world.draft(rater, assignment, [a], 5) == {"version": 5}
    assert world.draft(rater, assignment, [b], 4) == {"version": 5}
    assert world.draft(rater, assignment, [b], 5) == {"version": 5}
    assert world.state(rater)["assignment"]["marks"] == [a]
    assert world.draft(rater, assignment, [b, a], 6) == {"version": 6}
    resumed = world.restart().state(rater)["assignment"]
    assert (set(resumed["marks"]), resumed["version"]) == ({a, b}, 6)


def test_a_draft_after_the_submission_is_ignored(world):
    rater = world.raters[0]
    assignment = world.state(rater)["assignment"]
    world.submit(rater, assignment, [])
    assert world.draft(rater, assignment, ids(assignment), 99) == {"submitted": True}
    assert {row["rating"] for row in exported(world)} == {"no"}


def test_a_draft_is_no_rating(world):
    rater = world.raters[0]
    assignment = world.state(rater)["assignment"]
    world.draft(rater, assignment, ids(assignment), 1)
    assert exported(world) == []


def test_a_correction_replaces_answers_that_stay_in_force_until_it_is_sent(world):
    rater = world.raters[0]
    assignment = world.state(rater)["assignment"]
    a, b = ids(assignment)[:2]
    waiting = world.submit(rater, assignment, [a], seconds=20)["state"]["assignment"]
    state = world.page.reopen(rater)
    assert state["assignment"]["id"] == assignment["id"]
    assert state["assignment"]["marks"] == [a]
    assert state["assignment"]["version"] > assignment["version"]
    assert state["can_reopen"] is False
    world.draft(rater, assignment, [b], state["assignment"]["version"] + 1)
    yes = lambda: [row["input_id"] for row in exported(world) if row["rating"] == "yes"]  # noqa: E731
    assert yes() == [a]
    after = world.submit(rater, assignment, [b], seconds=5)
    assert "already" not in after
    assert after["state"]["assignment"]["id"] == waiting["id"]
    assert yes() == [b]
    assert {row["seconds"] for row in exported(world)} == {"25.0"}
    assert len(exported(world)) == 15
    restarted = world.restart()
    assert np.array_equal(restarted.page.counts.yes, world.page.counts.yes)
    assert np.array_equal(restarted.page.counts.ratings, world.page.counts.ratings)
    restarted.store.close()


def test_the_history_of_a_correction_is_kept(world):
    rater = world.raters[0]
    assignment = world.state(rater)["assignment"]
    world.submit(rater, assignment, ids(assignment)[:1])
    world.page.reopen(rater)
    world.submit(rater, assignment, [])
    with sqlite3.connect(world.store.path) as connection:
        events = connection.execute(
            "SELECT kind, detail FROM events WHERE assignment = ? ORDER BY id", (assignment["id"],)
        ).fetchall()
    assert [kind for kind, _ in events] == ["assigned", "submitted", "reopened", "corrected"]
    assert json.loads(events[1][1])["marks"] == ids(assignment)[:1]


def test_reopening_twice_is_reopening_once(world):
    rater = world.raters[0]
    world.submit(rater, world.state(rater)["assignment"], [])
    first = world.page.reopen(rater)
    assert world.page.reopen(rater) == first


def test_nothing_submitted_is_nothing_to_reopen(world):
    world.state(world.raters[0])
    with pytest.raises(RefusedError, match="no submitted task to correct") as refused:
        world.page.reopen(world.raters[0])
    assert refused.value.status == 409


def test_a_rater_waits_for_what_others_hold_and_gets_it_when_they_fall_silent(make_world):
    world = make_world(titles=["a cat"], n_images=10, n_raters=1)
    holder, other = world.raters[:2]
    held = world.state(holder)["assignment"]
    state = world.state(other)
    assert (state["status"], state["assignment"]) == ("wait", None)
    world.clock.now += 29 * 60
    assert world.state(other)["status"] == "wait"
    world.state(holder)
    world.clock.now += 29 * 60
    assert world.state(other)["status"] == "wait"
    world.clock.now += 2 * 60
    taken = world.state(other)["assignment"]
    assert set(ids(taken)) == set(ids(held))
    world.submit(other, taken, [])
    late = world.submit(holder, held, ids(held)[:1])
    assert "already" not in late
    assert Counter(row["worker"] for row in exported(world)) == {"rater-1": 10, "rater-2": 10}
    assert late["state"]["status"] == "done"


def test_a_draft_keeps_inputs_held_over_a_restart(make_world):
    world = make_world(titles=["a cat"], n_images=10, n_raters=1)
    holder, other = world.raters[:2]
    assignment = world.state(holder)["assignment"]
    world.clock.now += 20 * 60
    world.draft(holder, assignment, [], 1)
    restarted = world.restart()
    restarted.clock.now += 20 * 60
    assert restarted.state(other)["status"] == "wait"
    restarted.clock.now += 11 * 60
    assert restarted.state(other)["status"] == "rate"
    restarted.store.close()


def test_each_rater_gets_a_descriptions_check_once_and_it_is_never_needed(make_world):
    world = make_world(titles=["a cat", "a dog"], n_images=30, checks=[("a cat", "yes"), ("a dog", "no")])
    inputs = world.page.study.inputs
    checks = set(inputs.loc[inputs["answer"] != "", "input_id"])
    assert world.state(world.raters[0])["progress"]["inputs_left"] == 60
    states = rate_all(world, answer=lambda rater, i: i in checks)
    rows = exported(world)
    assert Counter((r["worker"], r["input_id"]) for r in rows if r["input_id"] in checks) == Counter(
        {(rater.label, check): 1 for rater in world.raters for check in checks}
    )
    sizes = Counter(row["assignment"] for row in rows)
    assert max(sizes.values()) == 15
    needed = Counter(row["input_id"] for row in rows if row["input_id"] not in checks)
    assert set(needed.values()) == {3}
    assert len(needed) == 60
    assert {state["status"] for state in states.values()} == {"done"}


def test_ratings_from_elsewhere_count_and_those_of_this_page_do_not_count_twice(tmp_path, write, reopen):
    folder = write(tmp_path / "s", titles=["a cat"], n_images=4, n_raters=2)
    rows = [
        ("W1", "A1", '../im"0', True), ("W2", "A2", '../im"0', False), ("W1", "A1", '../im"1', True),
        ("pilot/rater-1", "page-of-another-page", '../im"2', True), ("W9", "A9", "another image", True),
    ]  # fmt: skip
    table = pd.DataFrame(rows, columns=["worker", "assignment", "image_id", "rating"])
    table.assign(description="a cat").to_parquet(folder / "ratings.parquet")
    world = reopen(folder)
    rate_all(world)
    asked = Counter(row["image_id"] for row in exported(world))
    assert asked == {'../im"1': 1, '../im"2': 1, '../im"3': 2}
    assert world.page.counts.yes.tolist() == [1, 1, 1, 0]
    before = world.page.counts.ratings.tolist()
    own = pd.DataFrame(exported(world))[["worker", "assignment", "image_id", "description"]].assign(
        rating=False
    )
    pd.concat([pd.read_parquet(folder / "ratings.parquet"), own]).to_parquet(folder / "ratings.parquet")
    world.store.close()
    again = reopen(folder)
    assert again.page.counts.ratings.tolist() == before
    again.store.close()


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32 - 1), prior=st.sampled_from([0.05, 0.3, 0.5, None]))
def test_a_decisive_study_stops_at_the_first_posterior_that_is_decided(make_world, seed, prior):
    world = make_world(
        n_raters_with_links=5, titles=["a cat", "a dog"], n_images=20, n_raters=5, stop="decisive",
        prior=prior, probability=lambda i: i / 39,
    )  # fmt: skip
    rng = np.random.default_rng(seed)
    for rater in world.raters:
        rate_all(world, [rater], answer=lambda rater, input_id: rng.random() < 0.4)
    rows = pd.DataFrame(exported(world)).sort_values("worker")
    position = {each: i for i, each in enumerate(world.page.study.inputs["input_id"])}
    for input_id, votes in (rows["rating"] == "yes").groupby(rows["input_id"]):
        n = np.arange(1, len(votes) + 1)
        before = np.clip(position[input_id] / 39, 0.001, 0.999) if prior is None else prior
        posterior = bragg(votes.cumsum(), n, before)
        decided = (n >= 2) & ((posterior < 0.05) | (posterior > 0.95))
        assert not decided[:-1].any()
        assert decided[-1] or len(votes) == 5


def test_what_is_decided_after_two_ratings_is_not_asked_again(make_world):
    world = make_world(titles=["a cat"], n_images=30, n_raters=5, stop="decisive", prior=0.05)
    states = [rate_all(world, [rater])[rater] for rater in world.raters]
    assert set(Counter(row["input_id"] for row in exported(world)).values()) == {2}
    assert {state["status"] for state in states} == {"done"}
    facts = owner_facts(world.page)
    assert facts["saved"] == {"adaptive": True, "ratings": 90, "share": 0.6}
    assert facts["inputs"] == {"total": 30, "by_ratings": [0, 0, 30, 0, 0, 0], "complete": 30, "stopped": 30}


def test_an_assignment_given_before_its_inputs_stopped_still_counts(make_world):
    world = make_world(titles=["a cat"], n_images=5, n_raters=5, stop="decisive", prior=0.05)
    held = {rater: world.state(rater)["assignment"] for rater in world.raters}
    for rater, assignment in held.items():
        world.submit(rater, assignment, [])
    assert set(Counter(row["input_id"] for row in exported(world)).values()) == {3}


def test_stopped_stays_stopped_over_a_restart(make_world):
    world = make_world(titles=["a cat"], n_images=30, n_raters=5, stop="decisive", prior=0.05)
    rate_all(world)
    restarted = world.restart()
    assert restarted.page.counts.stopped.all()
    restarted.store.close()


def test_a_correction_can_take_up_an_input_that_had_stopped(make_world):
    world = make_world(titles=["a cat"], n_images=1, n_raters=5, stop="decisive", prior=0.5)
    first, second, third = world.raters
    yes = [world.page.counts.ids[0]]
    for rater in (first, second):
        world.submit(rater, world.state(rater)["assignment"], yes)
    assert not world.page.counts.stopped[0]
    world.submit(third, world.state(third)["assignment"], yes)
    assert world.page.counts.stopped[0]
    world.page.reopen(third)
    world.submit(third, {"id": world.store.last_submitted(third.id).id}, [])
    assert not world.page.counts.stopped[0]


def test_without_decisive_every_input_gets_all_its_ratings(make_world):
    world = make_world(titles=["a cat"], n_images=15, n_raters=3, stop="none", prior=0.001)
    rate_all(world)
    assert set(Counter(row["input_id"] for row in exported(world)).values()) == {3}


def test_a_pair_without_a_probability_is_named(tmp_path, write, reopen):
    folder = write(tmp_path / "s", stop="decisive")
    draws = pd.read_parquet(folder / "study.parquet")
    draws.iloc[1:].to_parquet(folder / "study.parquet")
    with pytest.raises(AssayError, match=r"no probability for image .*im.0.* with 'a red circle'"):
        reopen(folder)


def test_an_unknown_stop_is_named(make_world):
    with pytest.raises(AssayError, match="stop is 'sometimes'; known: none, decisive"):
        make_world(stop="sometimes")


def test_a_study_edited_after_rating_began_is_refused(world):
    world.submit(world.raters[0], world.state(world.raters[0])["assignment"], [])
    world.store.close()
    path = world.folder / "inputs.csv"
    path.write_text(path.read_text(encoding="utf-8").replace("red", "blue"), encoding="utf-8")
    with pytest.raises(AssayError, match=r"inputs\.csv changed since rating began"):
        Store(world.folder)
    with pytest.raises(AssayError, match=r"inputs\.csv changed since rating began"):
        export_ratings(world.folder, world.folder / "out.csv")
    assert not (world.folder / "out.csv").exists()


def test_two_processes_cannot_serve_one_study(world):
    with pytest.raises(AssayError, match="study small is served by another process"):
        Store(world.folder)


def test_an_export_before_anybody_rated_says_so(tmp_path, write):
    with pytest.raises(AssayError, match="nobody rated this study on the rating page yet"):
        export_ratings(write(tmp_path / "s"), tmp_path / "out.csv")


def test_a_file_that_is_no_store_is_named_and_left_alone(tmp_path, write):
    folder = write(tmp_path / "s")
    (folder / "rating.sqlite").write_text("my notes" * 200)
    with pytest.raises(AssayError, match=r"rating\.sqlite cannot be read as a store of ratings"):
        Store(folder)
    assert (folder / "rating.sqlite").read_text() == "my notes" * 200


def test_links_are_made_once_and_more_can_be_added(world):
    before, owner = world.raters, world.store.owner_token
    world.store.close()
    store = Store(world.folder)
    assert store.ensure_raters(2) == before
    assert store.ensure_raters(5)[:3] == before
    assert [rater.label for rater in store.raters()] == [f"rater-{k}" for k in range(1, 6)]
    assert store.owner_token == owner
    assert len({rater.token for rater in store.raters()} | {owner}) == 6
    assert min(len(rater.token) for rater in store.raters()) >= 22
    store.close()


def test_the_store_is_for_its_owner_only_and_syncs_fully(world):
    world.submit(world.raters[0], world.state(world.raters[0])["assignment"], [])
    for name in ("rating.sqlite", "rating.sqlite-wal", "rating.sqlite-shm"):
        assert (world.folder / name).stat().st_mode & 0o777 == 0o600
    pragma = lambda name: world.store._connection.execute(f"PRAGMA {name}").fetchone()[0]  # noqa: E731
    assert (pragma("journal_mode"), pragma("synchronous"), pragma("foreign_keys")) == ("wal", 2, 1)


def test_the_store_itself_refuses_an_input_twice_for_a_rater(world):
    rater = world.raters[0]
    first = world.state(rater)["assignment"]
    with pytest.raises(sqlite3.IntegrityError):
        world.store.add(rater.id, "a0", "x", ids(first)[:1], 0.0)
    assert world.store.assignment(rater.id, "a0") is None


def test_a_submission_that_cannot_be_committed_is_not_acknowledged_and_can_be_sent_again(world):
    rater = world.raters[0]
    assignment = world.state(rater)["assignment"]
    world.store._connection.execute("PRAGMA query_only = ON")
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        world.submit(rater, assignment, [])
    assert world.page.counts.ratings.sum() == 0
    world.store._connection.execute("PRAGMA query_only = OFF")
    assert "already" not in world.submit(rater, assignment, [])
    assert world.page.counts.ratings.sum() == 15


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32 - 1), n_people=st.integers(3, 6))
def test_whatever_raters_do_memory_equals_the_store_and_nobody_rates_twice(make_world, seed, n_people):
    world = make_world(n_raters_with_links=n_people, titles=["a cat", "a dog", "x"], n_images=12,
                       inputs_per_task=5, checks=[("a dog", "yes")])  # fmt: skip
    rng = np.random.default_rng(seed)
    for _ in range(80):
        rater = world.raters[rng.integers(n_people)]
        state, act = world.state(rater), rng.integers(6)
        if act == 0 and state["can_reopen"]:
            world.page.reopen(rater)
        elif act == 1:
            world.clock.now += float(rng.integers(1, 40)) * 60
        elif state["assignment"]:
            marks = [i for i in ids(state["assignment"]) if rng.random() < 0.3]
            world.submit(rater, state["assignment"], marks)
    rows = exported(world)
    assert len({(row["worker"], row["input_id"]) for row in rows}) == len(rows)
    counted = Counter(row["input_id"] for row in rows)
    counted_yes = Counter(row["input_id"] for row in rows if row["rating"] == "yes")
    restarted = world.restart()
    for counts in (world.page.counts, restarted.page.counts):
        assert counts.ratings.tolist() == [counted[each] for each in counts.ids]
        assert counts.yes.tolist() == [counted_yes[each] for each in counts.ids]
        assert counts.reserved.min() >= 0
    for rater in world.raters:
        assert np.array_equal(world.page.counts.mine(rater.id), restarted.page.counts.mine(rater.id))
    restarted.store.close()


def test_texts_that_a_spreadsheet_would_run_are_neutral_in_the_export_and_whole_in_the_ratings(make_world):
    titles = ["=cmd|' /C calc'!A0", "'=quoted", "+1+1", "a red circle"]
    world = make_world(titles=titles)
    rate_all(world)
    rows = exported(world)
    assert {row["description"] for row in rows} == {*(f"'{title}" for title in titles[:3]), titles[3]}
    ingest_into(world.folder, [world.folder / "out.csv"])
    ratings = pd.read_parquet(world.folder / "ratings.parquet")
    assert set(ratings["description"]) == set(titles)
    assert len(ratings) == len(rows)
    assert pd.read_parquet(world.folder / "rejected.parquet").empty
