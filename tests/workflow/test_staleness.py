"""What a change must rerun: exactly the listed jobs. Each row is one change to a finished sweep."""

import os
import shutil
from pathlib import Path
from unittest import mock

import pytest
from workflow_project import ALL, END, FROM_SAMPLING, FROM_UNITS, TinyProject

from pipeline.plan import keys


def all_but(*stages: str) -> dict[str, int]:
    return {stage: n for stage, n in ALL.items() if stage not in stages}


FROM_SCORER = {"scorer": 1, "image_embeddings": 1, "explanations": 2, "probabilities": 8, **FROM_SAMPLING}

CHANGES = [
    # settings, jobs
    ([], {}),
    (["loader.batch_size=7"], {}),
    (["loader.workers=1"], {}),
    (["device=cpu"], {}),
    (["dataset.n_images=90"], ALL),
    (["dataset.seed=1"], ALL),
    (["dataset.splits.test=0.4"], all_but("images", "labels", "activations", "units") | {"explanations": 4}),
    # The written texts come from a file, so labels do not touch them.
    (
        ["dataset.labels.min_count=3"],
        all_but("images", "splits", "activations", "units", "gallery") | {"explanations": 6},
    ),
    (["model.pool=max"], {"activations": 2, **FROM_UNITS}),
    (["model.dtype=float16"], {"activations": 2, **FROM_UNITS}),
    (["unit.seed=1"], FROM_UNITS),
    (["scorer.epochs=3"], FROM_SCORER),
    (["scorer.calibration.split=train"], {"probabilities": 8, **FROM_SAMPLING}),
    (["numerics.threads=2"], all_but("images", "splits", "labels")),
    (["sampler.seed=1"], FROM_SAMPLING),
    (["sampler=uniform"], FROM_SAMPLING),
    (["crowd.miss=0.1"], {"crowd": 8, "scoring": 8, **END}),
    (["crowd.seed=1"], {"crowd": 8, "scoring": 8, **END}),
    (["crowd.stop=decisive"], {"crowd": 8, "scoring": 8, **END}),
    (["crowd.reward=0.1", "crowd.inputs_per_task=10"], {}),
    (["crowd.image_base_url=https://x.org/images", "crowd.attention_checks=conf/texts.csv"], {}),
    (["aggregation=majority"], {"scoring": 8, **END}),
    (["aggregation=bragg_em", "estimator=combined"], {"scoring": 8, **END}),
    (["estimator.interval=bootstrap"], {"scoring": 8, **END}),
    (["crowd.error_rate=gold"], {"scoring": 8, **END}),
    (["crowd.error_rate=disagreement"], {"scoring": 8, **END}),
    (["sampler=active", "sampler.replacement=false", "sampler.coordinated=true"], FROM_SAMPLING),
    (["stats.confidence=0.9"], END),
    (["tracking.project=other"], {"tracking": 1}),
    (["tracking=none"], {}),
]


@pytest.mark.parametrize(
    ("overrides", "expected"), CHANGES, ids=lambda v: " ".join(v) if isinstance(v, list) else ""
)
def test_a_changed_setting_reruns_exactly_its_stage_and_what_follows(
    built: TinyProject, overrides: list[str], expected: dict[str, int]
) -> None:
    assert built.to_run(*overrides) == expected


def test_the_whole_sweep_was_planned(built: TinyProject) -> None:
    counts = built.prepare().status.counts()
    assert {stage: row["total"] for stage, row in counts.items()} == ALL


def test_a_new_layer_runs_only_its_own_points(built: TinyProject) -> None:
    expected = {
        "activations": 1,
        "units": 1,
        "gallery": 1,
        **dict.fromkeys(["explanations", "probabilities", "sampling", "crowd", "scoring"], 4),
    }
    assert built.to_run("layer=blocks.1,blocks.2,blocks.3") == {**expected, **END}


def test_a_new_value_of_a_sweep_runs_only_its_points(built: TinyProject) -> None:
    assert built.to_run("sampler.seed=0,1") == FROM_SAMPLING


def test_a_subset_of_the_sweep_runs_only_the_comparison(built: TinyProject) -> None:
    assert built.to_run("layer=blocks.1") == END


def test_swapped_values_of_two_keys_are_seen(built: TinyProject) -> None:
    one = built.prepare("crowd.miss=0.1", "crowd.false_alarm=0.3").build.jobs.keys()
    other = built.prepare("crowd.miss=0.3", "crowd.false_alarm=0.1").build.jobs.keys()
    assert {job for job in one if job[0] == "crowd"}.isdisjoint(other)


def test_raters_who_stop_early_depend_on_the_aggregation_that_stops_them(built: TinyProject) -> None:
    def crowd(*overrides: str) -> set[tuple[str, str]]:
        return {job for job in built.prepare(*overrides).build.jobs if job[0] == "crowd"}

    assert crowd("aggregation=majority") == crowd()
    decisive = crowd("crowd.stop=decisive")
    for other in ("aggregation=majority", "aggregation.error_rate=0.3"):
        assert crowd("crowd.stop=decisive", other).isdisjoint(decisive)


def test_paths_never_enter_a_key(built: TinyProject, copy: TinyProject) -> None:
    assert built.prepare().build.jobs.keys() == copy.prepare().build.jobs.keys()


def test_a_moved_checkout_runs_nothing(copy: TinyProject) -> None:
    assert "8 points are there" in copy.run("run", "sweep=tiny")
    assert copy.to_run() == {}


def test_touched_files_and_a_lost_snakemake_folder_run_nothing(copy: TinyProject) -> None:
    for path in copy.root.rglob("*"):
        if path.is_file():
            os.utime(path)
    shutil.rmtree(copy.root / ".snakemake")
    assert copy.to_run() == {}


def test_another_number_of_cores_runs_nothing(copy: TinyProject) -> None:
    before = {path: path.stat().st_mtime_ns for path in copy.root.glob("results/*/k*/meta.json")}
    copy.run("run", "sweep=tiny", "--cores", "1")
    assert before == {path: path.stat().st_mtime_ns for path in copy.root.glob("results/*/k*/meta.json")}


@pytest.mark.parametrize("stage", ALL)
def test_a_comment_and_a_docstring_run_nothing(copy: TinyProject, stage: str) -> None:
    path = copy.root / "pipeline" / "stages" / f"{stage}.py"
    text = path.read_text()
    title, rest = text.split("\n", 1)
    path.write_text(f'"""Another title."""\n# a comment\n{rest}\n# and another\n')
    assert title != '"""Another title."""'
    assert copy.to_run() == {}


@pytest.mark.parametrize(
    ("file", "old", "new", "expected"),
    [
        ("pipeline/stages/units.py", "BLOCK = 4096", "BLOCK = 4095", FROM_UNITS),
        (
            "pipeline/stages/crowd.py",
            '"ratings.parquet"',
            '"ratings.parquet" ""',
            {"crowd": 8, "scoring": 8, **END},
        ),
        ("pipeline/crowd/proposal.py", "0.2", "0.25", FROM_SAMPLING),
        (
            "pipeline/explainers/random.py",
            '"random", unit',
            '"random2", unit',
            {**dict.fromkeys(["explanations", "probabilities", "sampling", "crowd", "scoring"], 2), **END},
        ),
        ("pipeline/datasets/folder.py", "import", "import os\nimport", {}),
        ("pipeline/crowd/samplers/uniform.py", "import", "import os\nimport", {}),
        ("pipeline/scorers/open_clip.py", "import", "import os\nimport", {}),
        ("pipeline/running.py", "POLL = 0.2", "POLL = 0.3", {}),
    ],
)
def test_a_code_edit_reruns_that_stage_and_what_follows_and_nothing_once_undone(
    copy: TinyProject, file: str, old: str, new: str, expected: dict[str, int]
) -> None:
    if '""' in new:  # two literals side by side are one: no change of the tree
        new = new.replace('" ""', 'x"')
    path = copy.root / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    assert copy.to_run() == expected
    path.write_text(text)
    assert copy.to_run() == {}


def test_a_changed_library_reruns_what_names_it(built: TinyProject) -> None:
    real = keys.installed_version
    changed = lambda name: "99.0" if name == "wandb" else real(name)  # noqa: E731
    with mock.patch.object(keys, "installed_version", changed):
        assert built.to_run() == {"tracking": 1}


def test_edited_texts_rerun_from_explanations_on(copy: TinyProject) -> None:
    with copy.edited("conf/texts.csv", "0,red", "0,blue"):
        expected = dict.fromkeys(["explanations", "probabilities", "sampling", "crowd", "scoring"], 2)
        assert copy.to_run() == {**expected, **END}
    assert copy.to_run() == {}


def test_a_stale_key_says_which_setting_code_or_file_differs(copy: TinyProject) -> None:
    reasons = copy.prepare("crowd.miss=0.1").status.reasons
    assert {reason for (stage, _), reason in reasons.items() if stage == "crowd"} == {
        "crowd.miss: 0.23 -> 0.1"
    }
    with copy.edited("pipeline/stages/units.py", "BLOCK = 4096", "BLOCK = 4095"):
        reason = next(r for (stage, _), r in copy.prepare().status.reasons.items() if stage == "units")
        assert reason.startswith("code pipeline.stages.units: ")
    with copy.edited("conf/texts.csv", "0,red", "0,blue"):
        reasons = copy.prepare().status.reasons
        assert any(
            r.startswith("file explainer.path: ")
            for (stage, _), r in reasons.items()
            if stage == "explanations"
        )


def test_an_accepted_code_change_reruns_nothing_and_is_marked(copy: TinyProject) -> None:
    with copy.edited("pipeline/stages/units.py", "BLOCK = 4096", "BLOCK = 4095"):
        assert copy.to_run() == FROM_UNITS
        assert "accepted: units" in copy.run_here("accept", "code", "units")
        assert copy.to_run() == {}
        prepared = copy.prepare("unit.seed=1")
        assert prepared.status.counts()["units"]["fresh"] == 0
        assert "counts as" in copy.run_here("run", "sweep=tiny")
        copy.run_here("accept", "code", "units", "--undo")
        assert copy.to_run() == FROM_UNITS


def test_big_intermediate_results_may_go_and_come_back_when_needed(copy: TinyProject) -> None:
    printed = copy.run_here("clean", "--intermediate", "--yes", "sweep=tiny")
    assert "activations/" in printed
    assert not list((copy.root / "results" / "activations").glob("k*"))
    assert copy.to_run() == {}
    assert copy.to_run("unit.seed=1") == {"activations": 2, "image_embeddings": 1, **FROM_UNITS}


def test_cleaning_what_no_sweep_reaches_keeps_what_one_reaches(copy: TinyProject) -> None:
    orphan = copy.root / "results" / "units" / "k000000000000"
    shutil.copytree(next((copy.root / "results" / "units").glob("k*")), orphan)
    printed = copy.run_here("clean", "--unreachable")
    assert "units/k000000000000" in printed
    assert orphan.is_dir()
    copy.run_here("clean", "--unreachable", "--yes")
    assert not orphan.exists()
    assert copy.to_run() == {}


def test_no_path_of_this_machine_is_in_a_slice(built: TinyProject) -> None:
    for path in Path(built.root, "results").glob("*/k*/meta.json"):
        assert str(built.root) not in path.read_text()
