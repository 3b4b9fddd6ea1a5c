"""A batch waits for every batch that makes one of its inputs, whatever is there already."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.plan.batches import MAX_BATCHES, batch_up, read_plan, write_plan
from pipeline.plan.keys import Job
from pipeline.plan.points import Build
from pipeline.plan.project import Project
from pipeline.plan.stages import STAGES, UNITS


def job(stage: str, key: str, slice_: dict[str, object] | None = None, **inputs: str) -> Job:
    return Job(stage, key, slice_ or {}, dict(inputs), {}, {}, {})


def test_the_table_lists_upstream_stages_first():
    names = list(STAGES)
    for name, rows in STAGES.items():
        for row in rows:
            upstream = {*row.after} - {UNITS} | ({"activations", "latents"} if UNITS in row.after else set())
            assert all(names.index(up) < names.index(name) for up in upstream), name


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_no_dependency_is_lost_when_a_later_member_needs_what_its_first_does_not(order):
    jobs = [
        job("units", "k1"),
        job("explanations", "k2", units="k1"),
        job("scorer", "k3"),
        job("explanations", "k4", units="k1", scorer="k3"),
    ]
    table = {(j.stage, j.key): j for j in jobs}
    batches = {b.stage: b for b in batch_up(table, [(jobs[i].stage, jobs[i].key) for i in order])}
    assert set(batches["explanations"].after) == {batches["units"].id, batches["scorer"].id}


@given(st.integers(1, 200))
def test_every_job_is_in_one_batch_of_bounded_size(n):
    table = {("crowd", f"k{i}"): job("crowd", f"k{i}") for i in range(n)}
    batches = batch_up(table, list(table))
    assert sorted(j.key for b in batches for j in b.jobs) == sorted(key for _, key in table)
    assert max(len(b.jobs) for b in batches) <= STAGES["crowd"][0].batch


def test_layers_of_one_model_share_a_pass_and_other_models_do_not():
    jobs = [
        job("activations", f"k{model}{layer}", {"model": model, "layer": layer}, images="k0")
        for model in (1, 2)
        for layer in (1, 2, 3)
    ]
    table = {(j.stage, j.key): j for j in jobs}
    assert sorted(len(b.jobs) for b in batch_up(table, list(table))) == [3, 3]


def test_very_many_jobs_are_few_batches():
    table = {("crowd", f"k{i}"): job("crowd", f"k{i}") for i in range(20_000)}
    batches = batch_up(table, list(table))
    assert len(batches) <= MAX_BATCHES
    assert sum(len(b.jobs) for b in batches) == 20_000


def written(tmp_path, n: int):
    jobs = [job("units", "k0", {"seed": 0})]
    jobs += [
        Job(
            "crowd",
            f"k{i}",
            {"miss": i % 2, "a": {"z": [1, None], "b": "é"}},
            {"units": "k0"},
            {"m": "1"},
            {},
            {"f": "2"},
        )
        for i in range(1, n)
    ]
    build = Build("demo", [], {(j.stage, j.key): j for j in jobs}, [])
    return jobs, write_plan(Project(tmp_path), build, list(build.jobs))


def test_a_plan_is_read_back_as_it_was_written(tmp_path):
    jobs, plan = written(tmp_path, 100)
    again = read_plan(plan.path)
    assert again.markers == plan.markers
    assert [*again.batches] == [*plan.batches]
    for name, batch in plan.batches.items():
        found = again.batches[name]
        assert [*map(str, found.jobs)] == [*map(str, batch.jobs)]  # the order of keys is kept too
        assert (found.stage, found.after, found.threads) == (batch.stage, batch.after, batch.threads)
        assert (found.jobs[-1], len(found.jobs)) == (batch.jobs[-1], len(batch.jobs))
    assert [j for batch in again.batches.values() for j in batch.jobs] == jobs


def test_a_batch_is_read_without_the_files_of_others_and_parts_stand_there_once(tmp_path):
    _, plan = written(tmp_path, 100)
    first, *others = [b for b in plan.batches.values() if b.stage == "crowd"]
    for batch in others:
        (plan.folder / batch.stage / f"{batch.id}.json").unlink()
    assert [*read_plan(plan.path).batches[first.id].jobs] == [*first.jobs]
    assert len(json.loads((plan.folder / "crowd" / f"{first.id}.json").read_text())["parts"]) == 2
