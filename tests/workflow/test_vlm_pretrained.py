"""The published grid of the VLM track on small random models and small copies of the published questions."""

import io
import json
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from conftest import copy_project
from PIL import Image
from workflow_project import TinyProject

from pipeline.errors import AssayError
from pipeline.models.weights import seeded
from pipeline.stages import asking, attributions, vlm_comparison
from pipeline.stages.answers import EMPTY, NOT_ASKED
from tests.vlms.conftest import SAVERS

FOLDERS = {
    "llava": "llava-1.5-7b-hf",
    "qwen2_5_vl": "Qwen2.5-VL-3B-Instruct",
    "internvl": "InternVL3_5-2B-HF",
}
"""Where conf/vlm looks for each model below VLM_ROOT."""
SIZES = ((60, 90), (120, 60), (84, 84), (140, 57))
"""Widths and heights: no two of them give Qwen2.5-VL the same grid."""
WORDS = ("circle", "red square", "blue", "question about it")
SMALL = (
    "vlm.max_new_tokens=2",
    "synergy.steps=3",
    "synergy.n_tie_breaks=2",
    "sii.n_samples=1",
    "sii.patch_groups=2",
    "sii.token_groups=2",
    "numerics.threads=1",
    "stats.n_bootstrap=50",
    "device=cpu",
    "tracking=none",
)


ONE = (
    "vlm=qwen2_5_vl",
    "questions=repope",
    "questions.n_samples=null",
    "attribution=random,rollout,grad_rollout",
)


def save_models(root: Path, *names: str) -> Path:
    """Write models where VLM_ROOT=root has them."""
    with seeded(3):
        for name in names:
            SAVERS[name](root / FOLDERS[name])
    return root


def encoded(seed: int, size: tuple[int, int], kind: str = "PNG") -> bytes:
    """Return an image of noise, width and height as given."""
    pixels = np.random.default_rng(seed).integers(0, 256, (*size[::-1], 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, kind)
    return buffer.getvalue()


def save_questions(root: Path, sizes: Sequence[tuple[int, int]] = SIZES) -> Path:
    """Write CV-Bench, MMStar and RePOPE where QUESTIONS_ROOT=root has them, a question an image size."""
    images = [encoded(seed, size) for seed, size in enumerate(sizes)]
    _save_cv_bench(root / "cv_bench", images)
    _save_mmstar(root / "mmstar", images)
    _save_repope(root / "repope", sizes)
    return root


def _save_cv_bench(folder: Path, images: Sequence[bytes]) -> None:
    n = len(images)
    columns = {
        "idx": list(range(n)),
        "type": ["2D"] * n,
        "task": ["Count", "Relation"] * (n // 2) + ["Count"] * (n % 2),
        "image": [{"bytes": each, "path": None} for each in images],
        "question": ["Is it there?"] * n,
        "choices": [["yes", "no"]] * n,
        "answer": ["(A)"] * n,
        "prompt": ["Is it there?\n(A) yes\n(B) no"] * n,
    }
    folder.mkdir(parents=True)
    pq.write_table(pa.table(columns), folder / "test_2d.parquet")


def _save_mmstar(folder: Path, images: Sequence[bytes]) -> None:
    rows = [
        {
            "index": i,
            "question": "What is it?\n(A) yes (B) no",
            "image": image,
            "answer": "B",
            "category": "math",
            "l2_category": "geometry",
            "meta_info": {"source": "SEED", "split": "val", "image_path": "a.jpg"},
        }
        for i, image in enumerate(images)
    ]
    folder.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows), folder / "mmstar.parquet")


def _save_repope(folder: Path, sizes: Sequence[tuple[int, int]]) -> None:
    (folder / "val2014").mkdir(parents=True)
    lines = []
    for i, size in enumerate(sizes):
        name = f"COCO_val2014_{i:012d}.jpg"
        (folder / "val2014" / name).write_bytes(encoded(i, size, "JPEG"))
        text = f"Is there a {WORDS[i % len(WORDS)]}?"
        lines.append(json.dumps({"question_id": i, "image": name, "text": text, "label": "yes"}))
    (folder / "coco_repope_popular.json").write_text("\n".join(lines) + "\n")


def set_up(root: Path, *names: str, sizes: Sequence[tuple[int, int]] = SIZES) -> TinyProject:
    """Make a project with models and questions beside it, and the sweep `one`."""
    save_models(root / "models", *names)
    save_questions(root / "data", sizes)
    project = TinyProject(copy_project(root / "assay"))
    settings = "".join(f"  - {setting}\n" for setting in (*ONE, *SMALL))
    (project.root / "conf" / "sweep" / "one.yaml").write_text(f"- - track=vlm\n{settings}")
    return project


def latest(project: TinyProject, sweep: str = "one") -> Path:
    return project.root / "results" / "sweeps" / sweep / "latest"


def played(project: TinyProject, sweep: str = "one") -> pd.DataFrame:
    """Return F of every point and sample as the stage left it."""
    points = pd.read_csv(latest(project, sweep) / "points.csv")
    tables = [
        pd.read_parquet(project.root / "results" / "synergy" / row["synergy_key"] / "synergy.parquet").assign(
            explainer=row["explainer"], vlm=row["vlm"], questions=row["questions"]
        )
        for _, row in points.iterrows()
    ]
    return pd.concat(tables).set_index(["vlm", "questions", "explainer", "sample_id"]).sort_index()


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> TinyProject:
    """The sweep `one`, run once; nobody may change it."""
    project = set_up(tmp_path_factory.mktemp("pretrained"), "qwen2_5_vl")
    with pytest.MonkeyPatch.context() as patch:
        rooted(patch, project)
        project.run_here("run", "sweep=one")
    return project


def rooted(patch: pytest.MonkeyPatch, project: TinyProject) -> None:
    patch.setenv("VLM_ROOT", str(project.root.parent / "models"))
    patch.setenv("QUESTIONS_ROOT", str(project.root.parent / "data"))


@pytest.fixture
def copied(ran: TinyProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TinyProject:
    """A copy of `ran` with models and data of its own; no figures are drawn again."""
    shutil.copytree(ran.root.parent, tmp_path / "own", symlinks=True)
    project = TinyProject(tmp_path / "own" / "assay")
    rooted(monkeypatch, project)
    monkeypatch.setattr(vlm_comparison, "FIGURES", {})
    return project


def model_of(project: TinyProject, name: str = "qwen2_5_vl") -> Path:
    return project.root.parent / "models" / FOLDERS[name]


def test_images_of_four_grids_end_in_one_table_and_one_page(ran: TinyProject) -> None:
    samples = pd.read_csv(latest(ran) / "samples.csv")
    assert samples[["rows", "columns"]].drop_duplicates().shape[0] == len(SIZES)
    assert samples["flag"].isna().all()
    points = pd.read_csv(latest(ran) / "points.csv")
    for key in points["attributions_key"]:
        maps = pd.read_parquet(ran.root / "results" / "attributions" / key / "attributions.parquet")
        assert [*map(len, maps["patches"])] == (samples["rows"] * samples["columns"]).tolist()
        assert [*map(len, maps["tokens"])] == samples["n_tokens"].tolist()
    key = points["answers_key"][0]
    answers = pd.read_parquet(ran.root / "results" / "answers" / key / "answers.parquet")
    assert max(map(len, answers["ids"])) == 2
    assert np.isfinite(pd.read_csv(latest(ran) / "scores.csv")["f"]).sum() == len(SIZES) * 3
    page = (latest(ran) / "samples.html").read_text()
    assert all(name in page for name in samples["sample_id"])


def test_a_model_is_its_files_wherever_they_lie(copied: TinyProject) -> None:
    elsewhere = copied.root.parent / "elsewhere"
    model_of(copied).rename(elsewhere)
    setting = f"vlm.weights.path={elsewhere}"
    assert copied.to_run(setting, sweep="one") == {}
    weights = elsewhere / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(bytes(data))
    assert "questions" not in (changed := copied.to_run(setting, sweep="one"))
    assert {"vlm", "answers", "attributions", "synergy", "sii"} <= set(changed)


def test_batches_of_one_state_give_the_same_f(copied: TinyProject) -> None:
    before = played(copied)
    for stage in ("attributions", "synergy", "sii"):
        shutil.rmtree(copied.root / "results" / stage)
    copied.run_here("run", "sweep=one", "loader.batch_size=1")
    pd.testing.assert_frame_equal(played(copied), before, rtol=0, atol=1e-6)


def test_a_sample_that_cannot_be_asked_and_a_silent_answer_are_left_out_and_told(copied: TinyProject) -> None:
    answers = next((copied.root / "results" / "answers").glob("k*/answers.parquet"))
    first = [int(ids[0]) for ids in pd.read_parquet(answers)["ids"]]
    asked = next(i for i, token in enumerate(first) if token != first[0])
    broken, small = (i for i in range(1, len(SIZES)) if i != asked)
    end_with(model_of(copied), [first[0]])
    pictures = copied.root.parent / "data" / "repope" / "val2014"
    (pictures / f"COCO_val2014_{broken:012d}.jpg").write_bytes(b"no image")
    (pictures / f"COCO_val2014_{small:012d}.jpg").write_bytes(encoded(0, (90, 9), "JPEG"))
    printed = copied.run_here("run", "sweep=one")
    assert f"2 of 4 questions cannot be asked and are left out, first popular-{broken}" in printed
    assert "1 of 4 questions get an empty answer and are left out, first popular-0" in printed
    flags = pd.read_csv(latest(copied) / "samples.csv")["flag"].fillna("").tolist()
    assert (flags[0], flags[asked]) == (EMPTY, "")
    assert flags[broken].startswith(NOT_ASKED) and "its 8 bytes are no image" in flags[broken]
    assert flags[small].startswith(NOT_ASKED) and "90 x 9 pixels is smaller than one" in flags[small]


def end_with(folder: Path, ids: list[int]) -> None:
    path = folder / "generation_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"eos_token_id": ids}))


def test_a_model_that_says_nothing_at_all_is_an_error_with_what_to_look_at(copied: TinyProject) -> None:
    end_with(model_of(copied), [*range(1000)])
    printed = copied.run_here("run", "sweep=one", code=1)
    assert "questions=repope: none of 4 got an answer; to 4 the model ends at once: look at eos_token_id" in (
        printed
    )


def test_more_samples_than_there_are_is_an_error_that_names_the_setting(copied: TinyProject) -> None:
    printed = copied.run_here("run", "sweep=one", "questions.n_samples=9", code=1)
    assert "questions.n_samples=9: repope has 4 in" in printed
    assert "or null for all" in printed


def test_the_folder_of_another_model_is_named(copied: TinyProject) -> None:
    printed = copied.run_here("run", "sweep=one", "vlm=llava", f"vlm.weights.path={model_of(copied)}", code=1)
    assert "holds a model of the type 'qwen2_5_vl', and vlm=llava wants 'llava'" in printed


def test_an_explainer_that_fails_on_a_sample_has_a_flag_a_note_and_no_row_of_sii(
    copied: TinyProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    (name,) = pd.read_csv(latest(copied) / "sii.csv")["sample_id"].unique()
    attribute = attributions._attribute

    def failing(vlm: Any, answered: Any, prepared: Any, config: Any, drops: Any) -> Any:
        if config["attribution"]["name"] == "rollout" and answered.sample.sample_id == name:
            raise AssayError("it is too large; shrink it; or leave it")
        return attribute(vlm, answered, prepared, config, drops)

    monkeypatch.setattr(attributions, "_attribute", failing)
    for stage in ("attributions", "synergy", "sii"):
        shutil.rmtree(copied.root / "results" / stage)
    printed = copied.run_here("run", "sweep=one")
    assert "rollout: failed on 1 of 4 samples (first: it is too large, shrink it, or leave it)" in printed
    scores = pd.read_csv(latest(copied) / "scores.csv").set_index(["explainer", "sample_id"])
    assert scores.loc[("rollout", name), "flags"] == "failed: it is too large, shrink it, or leave it"
    assert scores["f"].isna().sum() == 1
    assert sorted(pd.read_csv(latest(copied) / "sii.csv")["explainer"]) == ["grad_rollout", "random"]


def test_too_little_memory_is_an_error_that_names_what_to_lower(
    copied: TinyProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 GiB. More words")

    monkeypatch.setattr(asking.Answered, "prepared", full)
    shutil.rmtree(copied.root / "results" / "synergy")
    printed = copied.run_here("run", "sweep=one", code=1)
    assert "device=cpu: CUDA out of memory; lower loader.batch_size=64" in printed


@pytest.mark.long
def test_the_published_grid_of_models_benchmarks_and_explainers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = set_up(tmp_path, *FOLDERS)
    rooted(monkeypatch, project)
    settings = ("questions.n_samples=2", *SMALL)
    project.run_here("run", "sweep=paper_vlm", *settings)
    table = played(project, "paper_vlm")
    assert len(table) == 3 * 3 * 9 * 2
    assert np.isfinite(table["f"]).all()
    # One D a sample, whatever the explainer.
    dividends = table.groupby(["vlm", "questions", "sample_id"])["dividend"]
    assert (dividends.max() == dividends.min()).all()
    pages = [*latest(project, "paper_vlm").glob("samples-*.html")]
    assert len(pages) == 9
    project.run_here("run", "sweep=paper_vlm", *settings, "numerics.precision=bfloat16")
    lower = played(project, "paper_vlm")
    assert np.isfinite(lower["f"]).all()
    ends = [table["f_full"], lower["f_full"]]
    assert np.corrcoef(np.log(ends))[0, 1] > 0.9


@pytest.mark.long
def test_a_process_killed_in_the_middle_of_synergy_is_gone_on_from_to_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = [(140, 84), (90, 140), (84, 112), (112, 140)] * 4
    straight = set_up(tmp_path / "straight", "qwen2_5_vl", sizes=sizes)
    rooted(monkeypatch, straight)
    resuming = straight.root / "pipeline" / "stages" / "resuming.py"
    resuming.write_text(resuming.read_text().replace("FLUSH = 10.0", "FLUSH = 0.1"))
    settings = ("synergy.steps=21", "synergy.insertion=true", "synergy.n_tie_breaks=5")
    killed = straight.copy_to(tmp_path / "killed")
    straight.run("run", "sweep=one", *settings)
    run = subprocess.Popen(
        killed.command("run", "sweep=one", *settings), cwd=killed.root, env=killed.environment
    )
    kept = killed.root / "results" / ".partials" / "synergy"
    while run.poll() is None and not any(kept.glob("*/*.json")):
        time.sleep(0.05)
    for process in psutil.Process(run.pid).children(recursive=True):
        if {"pipeline.execution", "synergy"} <= set(process.cmdline()):
            process.send_signal(signal.SIGKILL)
    assert run.wait() == 1
    n_kept = [len(json.loads(path.read_text())) for path in kept.glob("*/*.json")]
    assert n_kept and 0 < max(n_kept) < len(sizes)
    killed.run("run", "sweep=one", *settings)
    assert killed.tables("one") == straight.tables("one")
