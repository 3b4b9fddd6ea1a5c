"""Why a result is missing, by its nearest relative, also where there are very many."""

import json

import pytest

from pipeline.plan.keys import Job
from pipeline.plan.project import Project
from pipeline.plan.reasons import NEAR, Relatives
from pipeline.plan.store import META, Store


def crowd(key: str, miss: float, sampling: str, code: str = "1") -> Job:
    return Job("crowd", key, {"crowd": {"miss": miss}}, {"sampling": sampling}, {"m": code}, {}, {})


def finish(root, job: Job) -> None:
    folder = root / "results" / job.stage / job.key
    folder.mkdir(parents=True)
    meta = {key: {} for key in META} | {
        "notes": [],
        "slice": job.slice,
        "upstream": job.inputs,
        "code": job.code,
        "libraries": job.libraries,
        "files": job.files,
        "outputs": {},
    }
    (folder / "meta.json").write_text(json.dumps(meta))


@pytest.mark.parametrize("n", [5, 3 * NEAR])
def test_of_many_results_the_one_of_the_same_inputs_is_the_nearest(tmp_path, n):
    for i in range(n):
        finish(tmp_path, crowd(f"k{i:04}", 0.2, f"s{i}"))
    relatives = Relatives(Store(Project(tmp_path)))
    assert relatives.explain(crowd("kx", 0.1, f"s{n - 1}")) == "crowd.miss: 0.2 -> 0.1"
    assert relatives.explain(crowd("ky", 0.2, "other")) == "input sampling"
    assert relatives.explain(crowd("kz", 0.1, "other")) == "crowd.miss: 0.2 -> 0.1; input sampling"


def test_a_stage_without_results_has_no_relative(tmp_path):
    assert Relatives(Store(Project(tmp_path))).explain(crowd("kx", 0.1, "s")) is None


def test_only_some_differences_are_named(tmp_path):
    finish(tmp_path, Job("crowd", "k1", {"a": 1, "b": 1, "c": 1, "d": 1}, {}, {}, {}, {}))
    job = Job("crowd", "k2", {"a": 2, "b": 2, "c": 2, "d": 2}, {}, {}, {}, {})
    reason = Relatives(Store(Project(tmp_path))).explain(job)
    assert reason == "a: 1 -> 2; b: 1 -> 2; c: 1 -> 2; and 1 more differences"
