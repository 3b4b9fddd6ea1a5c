"""What a newcomer, a crash or another program may leave behind: a message, never a wrong number."""

import json
import shutil

import pandas as pd
import pytest
from workflow_project import END, FROM_UNITS, TinyProject

from pipeline.execution import run_batch
from pipeline.plan.batches import read_plan
from pipeline.plan.project import Project
from pipeline.plan.workflow import failures, hand_over


def test_results_made_under_an_acceptance_that_was_taken_back_are_stale(copy: TinyProject) -> None:
    seven = ("explainer=random", "explainer.seed=7", "scoring=oracle", "tracking=none")
    with copy.edited(
        "pipeline/stages/explanations.py",
        "left = len(result.unexplained)",
        "left = 0 + len(result.unexplained)",
    ):
        copy.run_here("accept", "code", "explanations")
        copy.run_here("run", "sweep=tiny", *seven)
        copy.run_here("accept", "code", "explanations", "--undo")
    assert copy.to_run(*seven)["explanations"] == 2
    reasons = copy.prepare(*seven).status.reasons
    assert any("no longer counts as" in reason for reason in reasons.values())


def test_doubles_are_removed_by_value(built: TinyProject) -> None:
    assert len(built.prepare("loader.batch_size=7,8").build.points) == 8
    assert built.to_run("loader.batch_size=7,8") == {}
    assert len(built.prepare("crowd.miss=1,1.0").build.points) == 8


def test_a_file_edited_after_planning_is_not_read(copy: TinyProject) -> None:
    prepared = copy.prepare("unit.seed=3", "explainer=written", "layer=blocks.1", sweep="light")
    plan = hand_over(prepared)
    with copy.edited("conf/texts.csv", "0,red", "0,blue"):
        for batch in read_plan(plan.path).batches.values():
            run_batch(plan, batch.id)
    messages = [row["message"] for row in failures(plan)]
    assert any("texts.csv changed since planning" in message for message in messages)


def test_one_unknown_layer_stops_no_other(copy: TinyProject) -> None:
    printed = copy.run("run", "sweep=light", "layer=blocks.2,nosuch", code=1)
    assert "nosuch" in printed
    assert "activations: 1 failed" in printed and "scoring: 2 passed over" in printed
    counts = copy.prepare("layer=blocks.2,nosuch", sweep="light").status.counts()
    assert counts["activations"]["fresh"] == 1
    assert counts["scoring"]["fresh"] == 2


@pytest.mark.long
def test_a_project_path_with_a_space_works(fresh: TinyProject, tmp_path) -> None:
    moved = tmp_path / "my project"
    shutil.move(fresh.root, moved)
    TinyProject(moved).run("run", "sweep=light", "explainer=random", "layer=blocks.1")


@pytest.mark.parametrize("text", ["", "{}", "[]", "{", '{"stage": "units"}'])
def test_a_spoilt_meta_file_is_damage(copy: TinyProject, text: str) -> None:
    next((copy.root / "results" / "crowd").glob("k*/meta.json")).write_text(text)
    assert copy.to_run() == {"crowd": 1}
    assert "damaged: crowd/" in copy.run_here("verify", code=1)


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("accepted.json", "[1]", "accepted.json cannot be read"),
        ("accepted.json", "{", "accepted.json cannot be read"),
        ("conf/sweep/tiny.yaml", "- [a", "tiny.yaml is no YAML"),
        ("conf/sweep/tiny.yaml", "", "a sweep is a list of blocks"),
        ("conf/sweep/tiny.yaml", "- [layer=a, layer=b]", "layer is given twice"),
    ],
)
def test_a_spoilt_file_is_named(copy: TinyProject, file: str, text: str, words: str) -> None:
    (copy.root / file).write_text(text)
    printed = copy.run_here("plan", "sweep=tiny", code=2)
    assert words in printed
    assert "Traceback" not in printed


def test_spoilt_code_is_named(copy: TinyProject) -> None:
    (copy.root / "pipeline" / "stages" / "units.py").write_text("def (")
    printed = copy.run("plan", "sweep=tiny", code=2)
    assert "units.py, line 1" in printed
    assert "Traceback" not in printed


def test_a_spoilt_memory_is_made_anew(copy: TinyProject) -> None:
    memory = Project(copy.root).memory
    for path in memory.parent.glob(f"{memory.name}*"):
        path.unlink()
    memory.write_bytes(b"garbage" * 100)
    assert copy.to_run() == {}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["plan"], "Missing argument"),
        (["plan", "layer=a"], "give one sweep"),
        (["plan", "sweep=nothing"], "no file"),
        (["plan", "sweep=tiny", "layer=glob(*)"], "layer"),
        (["plan", "sweep=tiny", "=3"], "is no override"),
        (["plan", "sweep=tiny", "crowd.miss=nan"], "crowd.miss"),
        (["plan", "sweep=tiny", "tracking=none,wandb"], "tracking varies within the sweep"),
        (["run", "sweep=tiny", "--profile", "nosuch"], "no folder profiles/nosuch"),
        (["show", "a**b"], "is no key"),
        (["show", "k000000000000"], "no result"),
        (["accept", "code", "nosuch"], "no stage 'nosuch'"),
        (["accept", "code", "units"], "no code change to accept"),
        (["clean"], "give one of --unreachable and --intermediate"),
    ],
)
def test_a_newcomers_mistake_gets_a_sentence(built: TinyProject, arguments: list[str], words: str) -> None:
    printed = built.run_here(*arguments, code=2)
    assert words in printed, printed
    assert "Traceback" not in printed


def test_plan_prints_counts_as_json(built: TinyProject) -> None:
    counts = json.loads(built.run("plan", "sweep=tiny", "sampler.seed=9", "--json"))
    assert counts["points"] == 8
    assert counts["jobs"]["sampling"] == {"total": 8, "fresh": 0, "stale": 8, "missing": 0, "waiting": 0}
    assert counts["jobs"]["units"] == {"total": 2, "fresh": 2, "stale": 0, "missing": 0, "waiting": 0}


def test_show_says_what_a_result_is_and_from_what_it_came(built: TinyProject) -> None:
    row = pd.read_csv(built.root / "results" / "sweeps" / "tiny" / "latest" / "points.csv").iloc[0]
    printed = built.run_here("show", row["scoring_key"])
    for words in (
        f"scoring/{row['scoring_key']}",
        f"sampling/{row['sampling_key']}",
        "scoring.parquet",
        "numpy",
    ):
        assert words in printed


def test_a_finished_sweep_does_not_start_snakemake(copy: TinyProject) -> None:
    plans = sorted((copy.root / "results" / ".plans").iterdir())
    copy.run("run", "sweep=tiny")
    assert sorted((copy.root / "results" / ".plans").iterdir()) == plans


def test_every_shipped_sweep_is_composed_and_planned(copy: TinyProject) -> None:
    data = copy.root / "data"
    for name in ("cv_bench", "mmstar", "repope", "llava-1.5-7b-hf", "InternVL3_5-2B-HF"):
        (data / name).mkdir(parents=True)
    (data / "Qwen2.5-VL-3B-Instruct").mkdir()
    for name in ("emoji", "imagenet_val", "cub", "syncub", "coco", "syncoco"):
        (data / name / "images").mkdir(parents=True)
    for arch, layer in (("resnet50", "layer4"), ("vit_b_16", "encoder.layers.encoder_layer_11.mlp.1")):
        (data / "explanations" / "maia" / f"{arch}_{layer}" / "0").mkdir(parents=True)
        (data / "explanations" / "maia" / f"{arch}_{layer}" / "0" / "label.txt").write_text("dog")
        for method in ("le_siglip", "le_label", "invert", "milan", "dnd"):
            path = data / "explanations" / method / f"{arch}_{layer}.csv"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("unit,description\n0,dog\n")
    expected = {"demo": 8, "emoji": 8, "paper_crowd": 14, "paper_simulation": 32, "pilot": 3}
    expected |= {"sae_demo": 36, "paper_sae": 432}
    expected |= {"tables_shapes": 52, "tables_emoji": 52, "latents": 8, "paper_tables": 24}
    expected |= {"vlm_demo": 11, "paper_vlm": 81}
    points = {name: len(copy.prepare(sweep=name).build.points) for name in expected}
    assert points == expected
    assert {path.stem for path in (copy.root / "conf" / "sweep").glob("*.yaml")} == {*points, "tiny", "light"}


def test_clean_keeps_what_the_last_run_of_an_unplannable_sweep_reached(copy: TinyProject) -> None:
    (copy.root / "conf" / "texts.csv").rename(copy.root / "texts.csv")
    copy.run_here("clean", "--unreachable", "--yes")
    (copy.root / "texts.csv").rename(copy.root / "conf" / "texts.csv")
    assert copy.to_run() == {}


def test_a_changed_library_version_can_be_accepted(copy: TinyProject) -> None:
    for path in (copy.root / "results" / "units").glob("k*/meta.json"):
        meta = json.loads(path.read_text())
        meta["libraries"]["numpy"] = "1.0"
        path.write_text(json.dumps(meta))
    printed = copy.run_here("accept", "library", "units")
    assert "numpy 1.0 -> " in printed
    assert set(copy.to_run()) <= {*FROM_UNITS, *END}
