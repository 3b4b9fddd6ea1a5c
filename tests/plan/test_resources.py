"""What a batch asks of a cluster, and which batches share a job there."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.plan.batches import Batch, batch_up
from pipeline.plan.keys import Job
from pipeline.plan.points import Build
from pipeline.plan.project import Project
from pipeline.plan.resources import COSTS, Request, group_up, request_all
from pipeline.plan.stages import STAGES
from pipeline.plan.store import META, Store

GPU = {"device": "auto"}


def job(stage: str, key: str, slice_: dict[str, Any] | None = None, speed: Any = None, **inputs: Any) -> Job:
    return Job(stage, key, slice_ or {}, dict(inputs), {}, {}, {}, speed=speed or {})


def requests(tmp_path: Path, *jobs: Job) -> dict[str, Request]:
    """Return what a run of the jobs asks for, by stage."""
    table = {(j.stage, j.key): j for j in jobs}
    batches = {batch.id: batch for batch in batch_up(table, list(table))}
    asked = request_all(batches, Build("s", [], table, []), Store(Project(tmp_path)))
    return {batches[name].stage: row for name, row in asked.items()}


def made(tmp_path: Path, job: Job, peak_mb: int, seconds: float, started: float) -> None:
    """Write the record of a result that is there."""
    folder = Project(tmp_path).result(job.stage, job.key)
    folder.mkdir(parents=True)
    meta = {key: {} for key in META} | {
        "notes": [],
        "stage": job.stage,
        "slice": job.slice,
        "upstream": job.inputs,
        "started": started,
        "seconds": seconds,
        "peak_memory_bytes": peak_mb * 1_000_000,
    }
    (folder / "meta.json").write_text(json.dumps(meta))


def test_every_stage_has_a_row_and_no_row_is_of_no_stage() -> None:
    assert COSTS.keys() == STAGES.keys()


def test_every_stage_that_takes_a_device_asks_for_one_gpu_and_no_other_does(tmp_path: Path) -> None:
    for stage, rows in STAGES.items():
        for row in rows:
            takes = "device" in row.speed
            (asked,) = requests(tmp_path, job(stage, "k1", speed=GPU if takes else None)).values()
            assert asked.gpu == int(takes)
            assert (asked.group is None) == takes


@pytest.mark.parametrize(("device", "gpu"), [("auto", 1), ("cuda", 1), ("cuda:1", 1), ("cpu", 0), ("mps", 0)])
def test_a_model_on_the_cpu_asks_for_no_gpu_and_still_has_its_own_job(
    tmp_path: Path, device: str, gpu: int
) -> None:
    asked = requests(tmp_path, job("activations", "k1", speed={"device": device}))["activations"]
    assert (asked.gpu, asked.group) == (gpu, None)


@pytest.mark.parametrize("order", [1, -1])
def test_one_job_with_a_model_makes_its_whole_batch_ask_for_a_gpu(tmp_path: Path, order: int) -> None:
    jobs = [job("explanations", "k1"), job("explanations", "k2", speed=GPU)]
    asked = requests(tmp_path, *jobs[::order])["explanations"]
    assert (asked.gpu, asked.group) == (1, None)


def test_each_attempt_doubles_memory_and_time() -> None:
    asked = Request(memory=1000, minutes=7, gpu=0, group=None)
    assert [asked.memory_mb(n) for n in (1, 2, 3)] == [1000, 2000, 4000]
    assert [asked.runtime(n) for n in (1, 2, 3)] == [7, 14, 28]


def test_time_grows_with_the_jobs_of_a_batch_and_memory_does_not(tmp_path: Path) -> None:
    one = requests(tmp_path, job("scoring", "k0"))["scoring"]
    many = requests(tmp_path, *(job("scoring", f"k{i}") for i in range(20)))["scoring"]
    assert one.memory == many.memory == 1000
    assert one.minutes == 6  # 300 s + 30 s, rounded up
    assert many.minutes == 15  # 300 s + 20 x 30 s


IMAGES = job("images", "k1", {"dataset": {"name": "shapes", "n_images": 100}})
MODEL = {"model.name": "timm", "model.arch": "resnet50", "layer": "a"}
ACTIVATIONS = job("activations", "k2", MODEL, GPU, images="k1")


def test_what_results_of_the_same_kind_took_counts_with_a_margin(tmp_path: Path) -> None:
    made(tmp_path, IMAGES, 100, 1.0, 1.0)
    made(tmp_path, job("activations", "k3", MODEL | {"layer": "b"}, images="k1"), 1000, 60.0, 2.0)
    made(tmp_path, job("activations", "k4", MODEL | {"layer": "c"}, images="k1"), 2000, 90.0, 3.0)
    asked = requests(tmp_path, IMAGES, ACTIVATIONS)["activations"]
    assert asked.memory == 3500  # 500 + 1.5 x the larger of both
    assert asked.minutes == 8  # 300 s + 2 x 90 s


def test_results_of_one_pass_share_its_time(tmp_path: Path) -> None:
    made(tmp_path, IMAGES, 100, 1.0, 1.0)
    for i in range(3):
        made(
            tmp_path, job("activations", f"k9{i}", MODEL | {"layer": str(i)}, images="k1"), 1000, 1200.0, 2.0
        )
    asked = requests(tmp_path, IMAGES, ACTIVATIONS)["activations"]
    assert asked.minutes == 19  # 300 s + 2 x 1200 s / 3, rounded up


@pytest.mark.parametrize(
    ("images", "slice_"),
    [
        ({"dataset": {"name": "shapes", "n_images": 50_000}}, MODEL),
        (IMAGES.slice, MODEL | {"model.arch": "vit_l"}),
    ],
    ids=["other data", "another model"],
)
def test_what_another_kind_took_does_not_count(
    tmp_path: Path, images: dict[str, Any], slice_: dict[str, Any]
) -> None:
    made(tmp_path, job("images", "k5", images), 100, 1.0, 1.0)
    made(tmp_path, job("activations", "k6", slice_, images="k5"), 90_000, 1e6, 2.0)
    asked = requests(tmp_path, IMAGES, ACTIVATIONS)["activations"]
    assert asked.memory == COSTS["activations"].memory


def test_a_result_whose_inputs_are_gone_does_not_count(tmp_path: Path) -> None:
    made(tmp_path, job("activations", "k6", MODEL, images="k5"), 90_000, 1e6, 2.0)
    assert requests(tmp_path, IMAGES, ACTIVATIONS)["activations"].memory == COSTS["activations"].memory


def test_light_stages_before_and_after_a_model_are_two_groups_and_the_ends_a_third() -> None:
    jobs = [
        job("images", "k1"),
        job("splits", "k2", images="k1"),
        job("activations", "k3", speed=GPU, images="k1"),
        job("units", "k4", activations="k3"),
        job("scoring", "k5", units="k4", splits="k2"),
        job("comparison", "k6", scoring=["k5"]),
    ]
    table = {(j.stage, j.key): j for j in jobs}
    batches = {batch.id: batch for batch in batch_up(table, list(table))}
    groups = {batches[name].stage: group for name, group in group_up(batches).items()}
    assert groups == {
        "images": "light0",
        "splits": "light0",
        "activations": None,
        "units": "light1",
        "scoring": "light1",
        "comparison": "ends",
    }


@given(st.data())
def test_no_group_waits_for_itself(data: st.DataObject) -> None:
    """The graph of groups and of batches without one has no cycle, whatever the batches."""
    n = data.draw(st.integers(1, 25))
    stages = ["sae", "units", "scoring", "images", "comparison"]
    batches: dict[str, Batch] = {}
    for i in range(n):
        stage = data.draw(st.sampled_from(stages))
        earlier = [name for name, b in batches.items() if b.stage != "comparison" or stage == "comparison"]
        after = data.draw(st.lists(st.sampled_from(earlier), unique=True)) if earlier else []
        made_of = (job(stage, f"k{i}", speed=GPU if stage == "sae" else None),)
        batches[f"b{i}"] = Batch(f"b{i}", stage, made_of, tuple(after))
    groups = group_up(batches)
    node = {name: group or name for name, group in groups.items()}
    edges = {(node[up], node[b.id]) for b in batches.values() for up in b.after if node[up] != node[b.id]}
    left = set(node.values())
    while free := {name for name in left if not any(b == name and a in left for a, b in edges)}:
        left -= free
    assert not left
