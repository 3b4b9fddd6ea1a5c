"""The VLM track from a model to tables: what it writes, what a change must rerun, what a kill costs."""

import fcntl
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import copy_project
from workflow_project import TinyProject, fill

from pipeline.attributions.registry import NAMES, attribution_module
from pipeline.errors import AssayError
from pipeline.plan.batches import batch_up, read_plan
from pipeline.plan.validation import BY_ATTENTION
from pipeline.plan.workflow import hand_over
from pipeline.report.vlm_figures import FIGURES
from pipeline.stages import resuming
from pipeline.stages.vlm_comparison import TABLES
from pipeline.synergy.fsyn import fsyn
from pipeline.synergy.orders import tie_breaks

BLOCK = """- - track=vlm
  - vlm=tiny_llava
  - vlm.n_steps=3
  - vlm.n_images=4
  - vlm.max_new_tokens=1
  - questions=shapes_vqa
  - questions.n_samples=4
  - synergy.steps=3
  - numerics.threads=1
  - stats.n_bootstrap=50
"""
SWEEP = (
    f"{BLOCK}  - attribution=occlusion,rollout\n  - sii.n_samples=2\n"
    "  - sii.patch_groups=2\n  - sii.token_groups=2\n"
    f"{BLOCK}  - attribution=random,inverted_occlusion\n"
)
ALL = {
    "vlm": 1,
    "questions": 1,
    "answers": 1,
    "attributions": 4,
    "synergy": 4,
    "sii": 2,
    "vlm_comparison": 1,
    "report": 1,
    "tracking": 1,
}
END = {"vlm_comparison": 1, "report": 1, "tracking": 1}
FROM_ATTRIBUTIONS = {"attributions": 4, "synergy": 4, "sii": 2, **END}


@pytest.fixture(scope="session")
def built_vlm(tmp_path_factory: pytest.TempPathFactory) -> TinyProject:
    """The tiny VLM sweep, run once for all tests; nobody may change it."""
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "built-vlm"
    with shared.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not shared.is_dir():
            building = shared.with_suffix(".building")
            shutil.rmtree(building, ignore_errors=True)
            project = TinyProject(fill(copy_project(building)))
            (project.root / "conf" / "sweep" / "tiny_vlm.yaml").write_text(SWEEP)
            project.run_here("run", "sweep=tiny_vlm")
            building.rename(shared)
    return TinyProject(shared).copy_to(tmp_path_factory.mktemp("built-vlm") / "assay")


CHANGES = [
    ([], {}),
    (["device=cpu", "loader.batch_size=7"], {}),
    # What the other tracks read changes nothing here.
    (["scorer=siglip_tiny", "explainer=random", "layer=blocks.1", "sae.k=8", "evaluation.split=all"], {}),
    (["vlm.seed=1"], {name: n for name, n in ALL.items() if name != "questions"}),
    (["questions.seed=1"], {name: n for name, n in ALL.items() if name != "vlm"}),
    (["vlm.max_new_tokens=2"], {"answers": 1, **FROM_ATTRIBUTIONS}),
    (["numerics.precision=bfloat16"], {"answers": 1, **FROM_ATTRIBUTIONS}),
    # Two of the four explainers see the blurred image.
    (["game.blur_radius=10"], {**FROM_ATTRIBUTIONS, "attributions": 2}),
    (["synergy.rule=mean"], {"synergy": 4, **END}),
    (["synergy.seed=1"], {"synergy": 4, "sii": 2, **END}),
    (["sii.patch_groups=3"], {"sii": 2, **END}),
    (["sii.n_samples=0"], END),
    (["stats.confidence=0.9"], END),
    (["tracking.project=other"], {"tracking": 1}),
]


@pytest.mark.parametrize(
    ("overrides", "expected"), CHANGES, ids=lambda v: " ".join(v) if isinstance(v, list) else ""
)
def test_a_changed_setting_reruns_exactly_its_stage_and_what_follows(
    built_vlm: TinyProject, overrides: list[str], expected: dict[str, int]
) -> None:
    assert built_vlm.to_run(*overrides, sweep="tiny_vlm") == expected


def test_the_report_of_another_sweep_is_no_relative_of_this_ones(built_vlm: TinyProject) -> None:
    counts = built_vlm.prepare(sweep="light").status.counts()
    assert counts["report"] == {"total": 1, "fresh": 0, "stale": 0, "missing": 1, "waiting": 0}


def test_one_more_explainer_runs_its_own_jobs_alone(built_vlm: TinyProject) -> None:
    added = "attribution=occlusion,rollout,random,inverted_occlusion,tam"
    expected = {"attributions": 1, "synergy": 1, "sii": 3, **END}
    assert (
        built_vlm.to_run(
            added, "sii.n_samples=2", "sii.patch_groups=2", "sii.token_groups=2", sweep="tiny_vlm"
        )
        == expected
    )


def test_an_edit_to_one_explainer_leaves_the_others_alone(built_vlm: TinyProject, tmp_path: Path) -> None:
    copy = built_vlm.copy_to(tmp_path / "assay")
    with copy.edited("pipeline/attributions/rollout.py", "row[-1] = 1", "row[-1] = 1.0"):
        assert copy.to_run(sweep="tiny_vlm") == {"attributions": 1, "synergy": 1, "sii": 1, **END}


def test_all_explainers_of_a_model_and_its_questions_share_one_process(built_vlm: TinyProject) -> None:
    prepared = built_vlm.prepare("vlm.seed=1", sweep="tiny_vlm")
    batches = batch_up(prepared.build.jobs, prepared.status.to_run)
    sizes = {batch.stage: len(batch.jobs) for batch in batches}
    assert sizes == {name: n for name, n in ALL.items() if name != "questions"}


def latest(project: TinyProject) -> Path:
    return project.root / "results" / "sweeps" / "tiny_vlm" / "latest"


def test_the_sweep_ends_in_tables_figures_a_page_and_words(built_vlm: TinyProject) -> None:
    names = {path.name for path in latest(built_vlm).iterdir()}
    tables = {f"{name}.csv" for name in (*TABLES, "points")}
    figures = {f"{name}.{ending}" for name in FIGURES for ending in ("png", "svg")}
    assert names == tables | figures | {"methods.txt", "samples.html", "report.html"}
    points = pd.read_csv(latest(built_vlm) / "points.csv")
    assert sorted(points["explainer"]) == ["inverted_occlusion", "occlusion", "random", "rollout"]


def test_f_of_the_tables_is_f_of_the_scores_played_alone(built_vlm: TinyProject) -> None:
    """Corners are shared, and scores read back from Parquet; the literal way gives the same F."""
    from pipeline.stages.asking import opened, read_answered

    scores = pd.read_csv(latest(built_vlm) / "scores.csv")
    row = scores[scores["explainer"] == "rollout"].iloc[2]
    points = pd.read_csv(latest(built_vlm) / "points.csv").set_index("explainer")
    results = built_vlm.root / "results"
    keys = points.loc["rollout"]
    maps = pd.read_parquet(results / "attributions" / keys["attributions_key"] / "attributions.parquet")
    (config,) = [
        p.values
        for p in built_vlm.prepare("attribution=rollout", "sii.n_samples=0", sweep="tiny_vlm").build.points
    ]
    answered = read_answered(config, results / "answers" / keys["answers_key"])[row["sample_id"]]
    own = maps.set_index("sample_id").loc[row["sample_id"]]
    with opened(config, results / "vlm" / keys["vlm_key"]) as vlm:
        game = answered.game(config, vlm, answered.prepared(vlm))
        orders = tie_breaks(own["patches"], own["tokens"], 5, 0, row["sample_id"])
        found = [fsyn(game, *order, steps=3) for order in orders]
    assert row["f"] == pytest.approx(np.mean([each.f for each in found]), rel=1e-5)
    assert row["dividend"] == pytest.approx(found[0].dividend, rel=1e-5)


def test_inverted_occlusion_is_occlusion_upside_down(built_vlm: TinyProject) -> None:
    points = pd.read_csv(latest(built_vlm) / "points.csv").set_index("explainer")["attributions_key"]
    drops, inverted = (
        pd.read_parquet(built_vlm.root / "results" / "attributions" / points[name] / "attributions.parquet")
        for name in ("occlusion", "inverted_occlusion")
    )
    for name in ("patches", "tokens"):
        np.testing.assert_array_equal(np.stack(drops[name]), -np.stack(inverted[name]))


class Killed(BaseException):
    """What stops a process in the middle."""


@pytest.mark.parametrize("stage", ["attributions", "synergy", "sii"])
def test_a_killed_job_goes_on_from_what_it_has_done(
    built_vlm: TinyProject, tmp_path: Path, stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = built_vlm.copy_to(tmp_path / "assay")
    before = {
        path.name: path.read_bytes() for path in latest(copy).glob("*.csv") if path.name != "points.csv"
    }
    for name in [stage, *(("synergy", "sii") if stage == "attributions" else ())]:
        shutil.rmtree(copy.root / "results" / name)
    played: list[str] = []
    tracked = resuming.tracked

    def dying(items: list[str], what: str, at_start: int = 0):
        for i, item in enumerate(tracked(items, what, at_start)):
            if not played and i == 1:
                raise Killed
            yield item

    def counting(items: list[str], what: str, at_start: int = 0):
        played.extend(items)
        return tracked(items, what, at_start)

    monkeypatch.setattr(resuming, "tracked", dying)
    with pytest.raises(Killed):
        copy.run_here("run", "sweep=tiny_vlm")
    monkeypatch.setattr(resuming, "tracked", counting)
    copy.run_here("run", "sweep=tiny_vlm")
    # The killed stage lacks all samples but its first; after attributions, 4 are played and 2 have SII.
    assert len(played) == {"attributions": 3 + 4 + 2, "synergy": 3, "sii": 1}[stage]
    assert not [*(copy.root / "results" / ".partials").glob("*/k*")]
    for name, content in before.items():
        assert (latest(copy) / name).read_bytes() == content, name


@pytest.mark.parametrize("explainer", ["occlusion", "rollout", "random"])
def test_what_one_explainer_lost_is_made_again_alone_the_same_to_the_byte(
    built_vlm: TinyProject, tmp_path: Path, explainer: str
) -> None:
    copy = built_vlm.copy_to(tmp_path / "assay")
    keys = pd.read_csv(latest(copy) / "points.csv").set_index("explainer").loc[explainer]
    lost = [
        copy.root / "results" / stage / keys[f"{stage}_key"]
        for stage in ("attributions", "synergy", "sii")
        if isinstance(keys[f"{stage}_key"], str)
    ]
    tables = [path for folder in lost for path in folder.glob("*.parquet")]
    before = {path: path.read_bytes() for path in [*tables, latest(copy) / "scores.csv"]}
    for folder in lost:
        shutil.rmtree(folder)
    copy.run_here("run", "sweep=tiny_vlm")
    assert len(tables) == len(lost) + 1
    for path, content in before.items():
        assert path.read_bytes() == content, path.name


def test_what_was_done_with_other_inputs_is_not_gone_on_from(built_vlm: TinyProject, tmp_path: Path) -> None:
    """A rebuilt input with other contents has the same key; its partial results must not mix."""
    copy = built_vlm.copy_to(tmp_path / "assay")
    key = pd.read_csv(latest(copy) / "points.csv")["synergy_key"][0]
    shutil.rmtree(copy.root / "results" / "synergy" / key)
    stray = copy.root / "results" / ".partials" / "synergy" / f"{key}-00000000"
    stray.mkdir(parents=True)
    (stray / "000000.json").write_text(json.dumps({"test-0-00000": {"f": 1.0}}))
    copy.run_here("run", "sweep=tiny_vlm")
    made = pd.read_parquet(copy.root / "results" / "synergy" / key / "synergy.parquet")
    assert made["f"].tolist() != [1.0] * len(made)


def test_an_explainer_whose_input_failed_does_not_part_the_others(built_vlm: TinyProject) -> None:
    plan = hand_over(built_vlm.prepare("vlm.seed=5", sweep="tiny_vlm"), dry_run=True)
    sizes = [len(b.jobs) for b in read_plan(plan.path).batches.values() if b.stage == "synergy"]
    assert sizes == [4]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["questions=cv_bench", "questions.root=."], "knows the words of questions=shapes_vqa alone"),
        (["questions.kinds=[object,left]"], "is trained on vlm.kinds"),
        (["vlm.kinds=[colour,left]", "questions.kinds=[colour]"], "add `object`"),
        (["vlm.attention=sdpa"], "attribution=rollout reads attentions"),
        (["synergy.steps=1"], "synergy.steps=1"),
        (["sii.n_samples=1", "sii.patch_groups=9", "sii.token_groups=9"], "262144 coalitions"),
        (["attribution=rolout"], "did you mean rollout"),
        (["attribution=tam", "attribution.kernel=2"], "use an odd number"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_runs(
    built_vlm: TinyProject, overrides: list[str], message: str
) -> None:
    with pytest.raises(AssayError, match=message.replace(".", r"\.")):
        built_vlm.prepare(*overrides, sweep="tiny_vlm")


def test_a_model_whose_folder_is_not_there_is_named_by_its_key(built_vlm: TinyProject) -> None:
    with pytest.raises(AssayError, match=r"vlm\.weights\.path: no folder or file .*llava-1\.5-7b-hf"):
        built_vlm.prepare("vlm=llava", "questions=mmstar", "attribution=ig", sweep="paper_vlm")


def test_the_plan_knows_which_explainers_read_attentions() -> None:
    assert {name for name in NAMES if "attentions" in attribution_module(name).NEEDS} == {*BY_ATTENTION}


def test_a_sample_without_an_answer_is_left_out_counted_and_told(
    built_vlm: TinyProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pipeline.vlms.tiny_llava import TinyLlava
    from pipeline.vlms.vlm import Answer

    given = TinyLlava.answer

    def silent(self, prepared, *, max_new_tokens=8):
        found = given(self, prepared, max_new_tokens=max_new_tokens)
        first = not getattr(self, "asked", False)
        self.asked = True
        return Answer(found.ids[:0], "", 0.0) if first else found

    monkeypatch.setattr(TinyLlava, "answer", silent)
    copy = built_vlm.copy_to(tmp_path / "assay")
    shutil.rmtree(copy.root / "results" / "answers")
    printed = copy.run_here("run", "sweep=tiny_vlm", "vlm.max_new_tokens=3")
    assert "1 of 4 questions get an empty answer and are left out" in printed
    assert len(pd.read_csv(latest(copy) / "scores.csv")) == 4 * 3
    assert pd.read_csv(latest(copy) / "samples.csv")["flag"].fillna("").tolist().count("empty_answer") == 1
