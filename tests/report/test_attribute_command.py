"""`assay attributes`: from results on disk to pages, and what it says where something is not there."""

import base64
import csv
import hashlib
import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result
from PIL import Image
from scipy.sparse import csr_array

from pipeline.attribute_command import attributes, write_pages
from pipeline.attribute_results import MatchingResult
from pipeline.attribute_views import SIDE, Views
from pipeline.errors import AssayError
from pipeline.files import write_json
from pipeline.plan.project import Project
from pipeline.plan.store import Store
from pipeline.run_roots import root_of_run
from pipeline.stages.sparse import write_codes

N_TRAIN, N_TEST, N_PAIRS = 6, 12, 9
NAMES = ("red", "blue & <b>bold</b>", "never")
KEYS = {
    "images": "k000000000001",
    "splits": "k000000000002",
    "labels": "k000000000003",
    "activations": "k000000000004",
    "sae": "k000000000005",
    "latents": "k000000000006",
    "pairs": "k000000000007",
    "pair_latents": "k000000000008",
    "matching": "kaaaaaaaaaaa",
    "perturbation": "kbbbbbbbbbbb",
}
UPSTREAM = {
    "splits": ("images",),
    "labels": ("images",),
    "activations": ("images",),
    "sae": ("splits", "activations"),
    "latents": ("activations", "sae"),
    "pairs": ("labels",),
    "matching": ("splits", "labels", "latents"),
    "perturbation": ("labels", "pairs", "matching"),
}
RED, BLUE, GREY = (200, 30, 30), (30, 60, 200), (128, 128, 128)


def colours() -> list[tuple[int, int, int]]:
    """Return each image's colour: in the test split (the last 12) 5 red ones, then 4 blue, then 3 grey."""
    return [RED, BLUE] * (N_TRAIN // 2) + [RED] * 5 + [BLUE] * 4 + [GREY] * 3


def labels() -> np.ndarray:
    found = np.zeros((N_TRAIN + N_TEST, len(NAMES)), dtype=np.uint8)
    for i, colour in enumerate(colours()):
        found[i, :2] = (colour == RED, colour == BLUE)
    return found


def codes() -> csr_array:
    """Return codes (18, 8).

    Of the test images, latent 3 fires on the first 4 red ones, most on the third (the two before are equal),
    and on a grey one; latent 5 on the grey ones alone; latent 7 nowhere.
    """
    dense = np.zeros((N_TRAIN + N_TEST, 8), dtype=np.float32)
    dense[:N_TRAIN:2, 3] = 1
    dense[N_TRAIN : N_TRAIN + 4, 3] = [2, 2, 9, 1]
    dense[-1, 3] = 0.5
    dense[-3:, 5] = [1, 2, 3]
    dense[0, 7] = 4
    return csr_array(dense)


def make_project(folder: Path, *, in_results: bool = True, pairs: bool = True) -> Project:
    """Write the project; its dataset's images lie in the results, or in folder/pictures."""
    (folder / "conf").mkdir(parents=True)
    (folder / "Snakefile").touch()
    project = Project(folder)
    for stage, key in KEYS.items():
        if pairs or stage not in ("pairs", "perturbation", "pair_latents"):
            place = project.result(stage, key)
            place.mkdir(parents=True)
            _WRITERS.get(stage, _write_nothing)(place, folder if not in_results else None)
            write_json(place / "meta.json", meta(stage))
    return project


def meta(stage: str) -> dict[str, Any]:
    upstream = {name: KEYS[name] for name in UPSTREAM.get(stage, ())}
    slice_ = {"evaluation": {"split": "test"}} if stage == "matching" else {}
    empty: dict[str, Any] = {name: {} for name in ("inputs", "code", "libraries", "files", "outputs")}
    return {
        "stage": stage,
        "key": KEYS[stage],
        "slice": slice_,
        "upstream": upstream,
        "notes": [],
        "started": 0.0,
        **empty,
    }


def write_images(
    place: Path, named: list[tuple[str, tuple[int, int, int]]], root: Path | None
) -> pd.DataFrame:
    """Write PNG files of one colour and return their manifest."""
    rows = []
    home = place if root is None else root / "pictures"
    home.mkdir(exist_ok=True)
    for name, colour in named:
        stream = io.BytesIO()
        Image.new("RGB", (24, 16), colour).save(stream, "PNG")
        encoded = stream.getvalue()
        (home / f"{name}.png").write_bytes(encoded)
        source = "result" if root is None else "root"
        checksum = hashlib.sha256(encoded).hexdigest()
        rows.append((name, source, f"{name}.png", "", "", 24, 16, checksum))
    columns = ["image_id", "source", "path", "member", "split", "width", "height", "checksum"]
    return pd.DataFrame(rows, columns=columns)


def _write_nothing(place: Path, root: Path | None) -> None:
    """Leave a stage's folder without what no page reads."""


def _write_dataset(place: Path, root: Path | None) -> None:
    named = [(f"image{i:02d}", colour) for i, colour in enumerate(colours())]
    write_images(place, named, root).to_parquet(place / "images.parquet")


def _write_splits(place: Path, root: Path | None) -> None:
    splits = ["train"] * N_TRAIN + ["test"] * N_TEST
    pd.DataFrame({"image_id": [f"image{i:02d}" for i in range(len(splits))], "split": splits}).to_parquet(
        place / "splits.parquet"
    )


def _write_labels(place: Path, root: Path | None) -> None:
    np.save(place / "attributes.npy", labels())


def _write_sae(place: Path, root: Path | None) -> None:
    write_json(place / "facts.json", {"variant": "topk", "dictionary_size": 8, "k": 2, "seed": 0})


def _write_latents(place: Path, root: Path | None) -> None:
    write_codes(codes(), place)


def _write_matching(place: Path, root: Path | None) -> None:
    summary = {"match_score": 0.4, "l0": 0.7, "matched_on": "train", "name": "fbmp", "mode": "corrected"}
    write_json(place / "summary.json", {**summary, "k": 2, "beta": 0.5})
    pd.DataFrame(
        {
            "attribute": range(3),
            "name": NAMES,
            "family": ["colour", "colour", "none"],
            "n_train": [3, 3, 0],
            "n_held_out": [5, 4, 0],
            "reason": ["", "", "no positive"],
            "n_latents": [3, 1, 0],
            "f1": [0.8, 0.125, 0.0],
        }
    ).to_parquet(place / "attributes.parquet")
    rows = [(0.25, 0, 1, 7, 0.1, 0.1)]
    rows += [(0.5, 0, step, latent, 1.0, f1) for step, latent, f1 in ((1, 3, 0.8), (2, 7, 0.8), (3, 5, 0.6))]
    rows += [(0.5, 1, 1, 7, 0.3, 0.125)]
    columns = ["beta", "attribute", "step", "latent", "f1_train", "f1"]
    pd.DataFrame(rows, columns=columns).to_parquet(place / "coalitions.parquet")


def _write_pairs(place: Path, root: Path | None) -> None:
    named = [
        (f"pair{i}_{side}", BLUE if side == "before" else RED)
        for i in range(N_PAIRS)
        for side in ("before", "after")
    ]
    write_images(place, named, None).to_parquet(place / "images.parquet")
    pd.DataFrame(
        {
            "pair_id": [f"p{i}" for i in range(N_PAIRS)],
            "before": range(0, 2 * N_PAIRS, 2),
            "after": range(1, 2 * N_PAIRS, 2),
            "added": 0,
            "removed": 1,
            "added_name": NAMES[0],
            "removed_name": NAMES[1],
            "family": "colour",
        }
    ).to_parquet(place / "pairs.parquet")


def _write_perturbation(place: Path, root: Path | None) -> None:
    delta = np.array([1, 1, 1, 1, 1, 0, 0, -1, np.nan])
    pd.DataFrame(
        {
            "pair_id": [f"p{i}" for i in range(N_PAIRS)],
            "added": 0,
            "removed": 1,
            "family": "colour",
            "delta_add": delta,
            "delta_rem": np.zeros(N_PAIRS),
            "graded_add": 0.5 * delta,
            "graded_rem": np.zeros(N_PAIRS),
            "empty_add": False,
            "empty_rem": True,
            "dropped": False,
            "dstay": 0.25,
        }
    ).sample(frac=1, random_state=0).to_parquet(place / "pairs.parquet", index=False)
    pd.DataFrame(
        {
            "attribute": range(3),
            "n_add": [8, 0, 0],
            "add": [0.5, np.nan, np.nan],
            "n_rem": [0, 9, 0],
            "rem": [np.nan, 0.0, np.nan],
            "n_stay": [0, 2, 0],
            "dstay": [np.nan, 0.25, np.nan],
        }
    ).to_parquet(place / "attributes.parquet", index=False)


_WRITERS = {
    "images": _write_dataset,
    "splits": _write_splits,
    "labels": _write_labels,
    "sae": _write_sae,
    "latents": _write_latents,
    "matching": _write_matching,
    "pairs": _write_pairs,
    "perturbation": _write_perturbation,
}


def run(project: Project, *words: str) -> Result:
    return CliRunner().invoke(attributes, [KEYS["matching"], *words], catch_exceptions=False)


def views(project: Project, **roots: Path) -> Views:
    return Views(MatchingResult(project, KEYS["matching"], **roots))


def picture_colour(data: str) -> tuple[int, int, int]:
    with Image.open(io.BytesIO(base64.b64decode(data.split(",", 1)[1]))) as image:
        red, green, blue = image.convert("RGB").resize((1, 1)).getpixel((0, 0))  # type: ignore[misc]
        return red, green, blue


def test_a_page_an_attribute_and_an_index_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_project(tmp_path / "p")
    monkeypatch.chdir(project.root)
    done = run(project)
    folder = project.results / "pages" / "matching-kaaaaaaaaaaa"
    assert done.output == f"3 pages: {folder / 'index.html'}\n"
    names = ["0000-red.html", "0001-blue-b-bold-b.html", "0002-never.html"]
    assert sorted(path.name for path in folder.iterdir()) == [*names, "index.html"]
    index = (folder / "index.html").read_text()
    assert re.findall('href="([^"]+)"', index) == names
    assert "blue &amp; &lt;b&gt;bold&lt;/b&gt;" in index


def test_the_pages_are_no_result_that_a_later_run_judges(tmp_path: Path) -> None:
    project = make_project(tmp_path / "p")
    before = list(Store(project).all())
    write_pages(project, "kaaaa")
    assert list(Store(project).all()) == before


def test_one_attribute_alone_is_written_and_linked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = make_project(tmp_path / "p")
    monkeypatch.chdir(project.root)
    out = tmp_path / "out"
    done = run(project, "--attribute", NAMES[1], "--out", str(out))
    assert done.output.startswith("1 page: ")
    assert sorted(path.name for path in out.iterdir()) == ["0001-blue-b-bold-b.html", "index.html"]
    index = (out / "index.html").read_text()
    assert re.findall('href="([^"]+)"', index) == ["0001-blue-b-bold-b.html"]
    assert "never" in index


def test_the_same_results_give_the_same_pages(tmp_path: Path) -> None:
    project = make_project(tmp_path / "p")
    folders = [write_pages(project, "kaaaa", out=tmp_path / name)[0] for name in ("one", "two")]
    one, two = ({path.name: path.read_bytes() for path in folder.iterdir()} for folder in folders)
    assert one == two


def test_a_latents_images_are_the_held_out_ones_on_which_it_fires_most(tmp_path: Path) -> None:
    made = views(make_project(tmp_path / "p"))
    red = made.view(0, made.rows({})[0])
    first, second = red.latents
    assert [picture.image_id for picture in first.pictures] == [
        "image08",
        "image06",
        "image07",
        "image09",
        "image17",
    ]
    assert [picture.held for picture in first.pictures] == [True] * 4 + [False]
    notes = [picture.note for picture in first.pictures]
    assert notes == ["code 9.00", "code 2.00", "code 2.00", "code 1.00", "code 0.500"]
    assert (first.n_fires, first.n_hits) == (5, 4)
    assert (second.n_fires, second.pictures) == (0, ())
    shown = [picture_colour(picture.data) for picture in first.pictures]
    wanted = [RED] * 4 + [GREY]
    assert np.abs(np.subtract(shown, wanted)).max() <= 6  # JPEG


def test_the_path_is_the_headlines_and_only_the_first_k_latents_count(tmp_path: Path) -> None:
    made = views(make_project(tmp_path / "p"))
    red = made.view(0, made.rows({})[0])
    assert [(step.latent, step.f1_held_out, step.counted) for step in red.steps] == [
        (3, 0.8, True),
        (7, 0.8, True),
        (5, 0.6, False),
    ]
    assert [picture.image_id for picture in red.misses] == ["image10"]
    assert red.n_misses == 1


def test_misses_beyond_eight_are_counted_not_shown(tmp_path: Path) -> None:
    project = make_project(tmp_path / "p")
    held = labels()
    held[N_TRAIN:, 1] = 1
    np.save(project.result("labels", KEYS["labels"]) / "attributes.npy", held)
    made = views(project)
    blue = made.view(1, made.rows({})[1])
    assert blue.n_misses == N_TEST
    assert [picture.image_id for picture in blue.misses][::7] == ["image06", "image17"]
    assert len(blue.misses) == 8


def test_pairs_are_those_of_the_attribute_with_their_changes(tmp_path: Path) -> None:
    made = views(make_project(tmp_path / "p"))
    rows = made.rows({})
    red, blue, never = (made.view(column, rows[column]).perturbed for column in range(3))
    assert red and blue and never
    assert [pair.pair_id for pair in red.examples] == ["p0", "p2", "p3", "p5", "p6", "p8"]
    assert [pair.delta for pair in red.examples] == pytest.approx([1, 1, 1, 0, 0, np.nan], nan_ok=True)
    (side,) = red.sides
    assert (side.n_pairs, side.n_expected, side.n_still, side.n_opposite) == (8, 5, 2, 1)
    assert side.mean == pytest.approx(0.5)
    assert (
        picture_colour(red.examples[0].after.data)[0] > 150 > picture_colour(red.examples[0].before.data)[0]
    )
    assert (red.examples[0].before.held, red.examples[0].after.held) == (False, True)
    assert (blue.examples[0].before.held, blue.examples[0].after.held) == (True, False)
    assert blue.examples[0].empty and not blue.examples[0].adds
    assert (blue.dstay, blue.n_stay, red.n_stay) == (0.25, 2, 0)
    assert never.examples == () and never.sides == ()


def test_a_matching_without_pairs_has_pages_without_them(tmp_path: Path) -> None:
    made = views(make_project(tmp_path / "p", pairs=False))
    assert made.view(0, made.rows({})[0]).perturbed is None
    assert not made.about().pairs


def test_of_several_perturbations_the_newest_of_this_matching_is_shown(tmp_path: Path) -> None:
    project = make_project(tmp_path / "p")
    other, newer = (project.result("perturbation", f"kbbbbbbbbbb{i}") for i in range(2))
    for folder, told in (
        (other, {"upstream": {"matching": "kother"}, "started": 9.0}),
        (newer, {"started": 5.0}),
    ):
        folder.mkdir()
        for path in project.result("perturbation", KEYS["perturbation"]).glob("*.parquet"):
            (folder / path.name).write_bytes(path.read_bytes())
        write_json(folder / "meta.json", meta("perturbation") | told)
    pairs = MatchingResult(project, KEYS["matching"]).pairs
    assert pairs and pairs.key == newer.name


def test_large_images_are_shown_small(tmp_path: Path) -> None:
    project = make_project(tmp_path / "p")
    folder = project.result("images", KEYS["images"])
    table = pd.read_parquet(folder / "images.parquet")
    stream = io.BytesIO()
    Image.new("RGB", (900, 300), RED).save(stream, "PNG")
    (folder / "image08.png").write_bytes(stream.getvalue())
    table.loc[table["image_id"] == "image08", "checksum"] = hashlib.sha256(stream.getvalue()).hexdigest()
    table.to_parquet(folder / "images.parquet")
    made = views(project)
    data = made.view(0, made.rows({})[0]).latents[0].pictures[0].data
    with Image.open(io.BytesIO(base64.b64decode(data.split(",", 1)[1]))) as image:
        assert image.size == (SIDE, round(SIDE / 3))


def test_images_in_a_users_folder_are_found_there(tmp_path: Path) -> None:
    project = make_project(tmp_path / "p", in_results=False)
    made = views(project, root=project.root / "pictures")
    assert made.view(0, made.rows({})[0]).latents[0].pictures[0].image_id == "image08"
    with pytest.raises(
        AssayError, match="no sweep that was run with this result says it: give --root FOLDER"
    ):
        views(project)


def write_run(project: Project, overrides: str, key: str = KEYS["matching"]) -> None:
    """Write the points.csv of a sweep, and a config that it overrides."""
    (project.conf / "dataset").mkdir(exist_ok=True)
    (project.conf / "dataset" / "folder.yaml").write_text("name: folder\nroot: ???\n")
    (project.conf / "dataset" / "shapes.yaml").write_text("name: shapes\n")
    (project.conf / "config.yaml").write_text("defaults:\n  - dataset: shapes\n  - _self_\nlayer: a\n")
    path = project.results / "sweeps" / "mine" / "k1" / "points.csv"
    path.parent.mkdir(parents=True)
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerows([["overrides", "matching_key"], ["layer=b", "kother"], [overrides, key]])


@pytest.mark.parametrize(
    "overrides",
    ["dataset=folder dataset.root=pictures layer=[b, c]", "dataset=folder dataset.root='pictures'"],
)
def test_the_users_folder_is_that_of_the_sweep_that_was_run(tmp_path: Path, overrides: str) -> None:
    project = make_project(tmp_path / "p", in_results=False)
    write_run(project, overrides)
    found = root_of_run(project, "matching", KEYS["matching"], "dataset")
    assert found == (project.root / "pictures").resolve()
    made = views(project)
    assert made.view(0, made.rows({})[0]).latents[0].pictures[0].image_id == "image08"


@pytest.mark.parametrize(
    "overrides", ["dataset=folder", "dataset=shapes", "dataset=gone dataset.root=pictures"]
)
def test_a_sweep_that_does_not_tell_the_folder_is_passed_over(tmp_path: Path, overrides: str) -> None:
    project = make_project(tmp_path / "p", in_results=False)
    write_run(project, overrides)
    assert root_of_run(project, "matching", KEYS["matching"], "dataset") is None


def test_an_image_that_changed_is_named(tmp_path: Path) -> None:
    project = make_project(tmp_path / "p")
    (project.result("images", KEYS["images"]) / "image08.png").write_bytes(b"another")
    with pytest.raises(AssayError, match="image 'image08' changed since its manifest was made"):
        write_pages(project, KEYS["matching"])


def test_an_unknown_attribute_is_told_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(AssayError, match="has no attribute 'rde'; nearest: 'red'"):
        write_pages(make_project(tmp_path / "p"), KEYS["matching"], ["rde"])


def test_a_key_of_another_stage_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AssayError, match="is a result of the stage labels: give the key of a matching"):
        write_pages(make_project(tmp_path / "p"), KEYS["labels"])


def test_codes_that_were_cleaned_away_are_named(tmp_path: Path) -> None:
    project = make_project(tmp_path / "p")
    (project.result("latents", KEYS["latents"]) / "meta.json").unlink()
    with pytest.raises(
        AssayError, match=f"latents/{KEYS['latents']}, of which matching/kaaaaaaaaaaa was made"
    ):
        write_pages(project, KEYS["matching"])


def test_activations_may_be_gone(tmp_path: Path) -> None:
    project = make_project(tmp_path / "p")
    (project.result("activations", KEYS["activations"]) / "meta.json").unlink()
    assert write_pages(project, KEYS["matching"])[1] == 3
