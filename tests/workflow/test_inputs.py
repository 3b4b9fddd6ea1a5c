"""Real folders of images: what an edit reruns, and what a bad one says."""

import csv
import shutil

import numpy as np
import pytest
from PIL import Image
from workflow_project import TinyProject

SETTINGS = (
    "dataset=folder",
    "dataset.root=data",
    "model=tiny",
    "unit.n=3",
    "numerics.threads=1",
    "stats.n_bootstrap=50",
    "layer=blocks.1",
    "explainer=top_concept",
    "scoring=oracle",
    "tracking=none",
)
ONE = "- [" + ", ".join(SETTINGS) + "]\n"


def add_folder(project: TinyProject, n: int = 24) -> None:
    images = project.root / "data" / "images"
    images.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for i in range(n):
        colour = [(200, 30, 30), (30, 30, 200)][i % 2]
        pixels = np.clip(rng.normal(colour, 20, size=(32, 32, 3)), 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(images / f"{i:02}.png")
    rows = [(f"{i:02}.png", ["red", "blue"][i % 2]) for i in range(n)]
    write(project, "images.csv", [("image", "caption"), *((name, f"a {c} square") for name, c in rows)])
    write(project, "concepts.csv", [("image", "concept"), *rows])
    (project.root / "conf" / "sweep" / "folder.yaml").write_text(ONE)


def write(project: TinyProject, name: str, rows) -> None:
    with (project.root / "data" / name).open("w", newline="") as stream:
        csv.writer(stream).writerows(rows)


@pytest.fixture(scope="module")
def folder_built(tmp_path_factory):
    from conftest import copy_project
    from workflow_project import fill

    project = TinyProject(fill(copy_project(tmp_path_factory.mktemp("folder") / "assay")))
    add_folder(project)
    project.run_here("run", "sweep=folder")
    return project


@pytest.fixture
def folder(folder_built, tmp_path):
    target = tmp_path / "assay"
    shutil.copytree(folder_built.root, target, symlinks=True)
    return TinyProject(target)


AFTER_LABELS = {"labels": 1, "explanations": 1, "scoring": 1, "comparison": 1, "report": 1}


def test_an_edited_concepts_file_leaves_activations_alone(folder):
    with (folder.root / "data" / "concepts.csv").open("a") as stream:
        stream.write("00.png,bright\n")
    assert folder.to_run(sweep="folder") == AFTER_LABELS


def test_an_edited_image_reruns_everything(folder):
    path = folder.root / "data" / "images" / "03.png"
    Image.open(path).rotate(90).point(lambda value: 255 - value).save(path)
    assert folder.to_run(sweep="folder") == {
        **AFTER_LABELS,
        "images": 1,
        "splits": 1,
        "activations": 1,
        "units": 1,
        "gallery": 1,
    }


def test_touched_images_rerun_nothing(folder):
    for path in (folder.root / "data").rglob("*"):
        path.touch()
    assert folder.to_run(sweep="folder") == {}


def test_a_root_in_another_place_reruns_nothing(folder):
    shutil.move(folder.root / "data", folder.root / "elsewhere")
    assert folder.to_run("dataset.root=elsewhere", sweep="folder") == {}


def test_an_unreadable_image_stops_by_name_or_is_skipped_with_a_count(folder):
    (folder.root / "data" / "images" / "05.png").write_bytes(b"not an image")
    printed = folder.run("run", "sweep=folder", code=1)
    assert "05.png" in printed
    assert "on_bad_image=skip" in printed
    assert "Traceback" not in printed
    assert not list(folder.root.glob("results/*/.k*"))
    printed = folder.run_here("run", "sweep=folder", "dataset.on_bad_image=skip")
    assert "unreadable images left out: 1" in printed


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda p: shutil.rmtree(p.root / "data"), ["dataset.root: no folder", "data"]),
        (lambda p: [f.unlink() for f in (p.root / "data" / "images").iterdir()], ["no image"]),
        (
            lambda p: write(p, "images.csv", [("image", "caption"), ("00.png", "a"), ("00.png", "b")]),
            ["images.csv", "00.png"],
        ),
        (
            lambda p: write(p, "concepts.csv", [("image", "concept"), ("99.png", "red")]),
            ["concepts.csv", "99.png"],
        ),
        (
            lambda p: write(p, "concepts.csv", [("picture", "concept"), ("00.png", "red")]),
            ["concepts.csv", "image"],
        ),
    ],
    ids=["missing root", "zero images", "two images with one name", "unknown image", "missing column"],
)
def test_a_bad_folder_is_named(folder, spoil, words):
    spoil(folder)
    missing = "dataset.root" in words[0]
    printed = folder.run_here("run", "sweep=folder", code=2 if missing else 1)
    assert all(word in printed for word in words), printed
    assert "Traceback" not in printed


@pytest.mark.parametrize(
    ("overrides", "code", "words"),
    [
        (["layer=blocks.77"], 1, ["blocks.77", "blocks."]),
        (["unit.indices=[0,999]"], 1, ["unit 999", "out of range", "units 0 to"]),
        (["unit.indices=[1,1]"], 1, ["names a unit twice"]),
        (["layr=blocks.1"], 2, ["unknown key 'layr'", "layer"]),
        (["dataset.root=nowhere"], 2, ["dataset.root: no folder", "nowhere"]),
        (["dataset.labels.min_count=99"], 1, ["min_count=99"]),
    ],
)
def test_a_bad_setting_is_named(folder, overrides, code, words):
    printed = folder.run_here("run", "sweep=folder", *overrides, code=code)
    assert all(word in printed for word in words), printed
    assert "Traceback" not in printed


def test_constant_activations_are_flagged_and_never_a_crash(folder):
    for path in (folder.root / "data" / "images").iterdir():
        Image.new("RGB", (32, 32), "white").save(path)
    printed = folder.run_here("run", "sweep=folder", "unit.indices=[0,1]", "unit.n=null")
    assert "have one activation on all images" in printed
    scores = (folder.root / "results" / "sweeps" / "folder" / "latest" / "scores.csv").read_text()
    assert "no_explanation" in scores
