"""A batch waits for every batch that makes one of its inputs, whatever is there already."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.plan.batches import batch_up
from pipeline.plan.keys import Job
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
