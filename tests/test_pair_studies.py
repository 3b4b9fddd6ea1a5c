"""Pairs that a classifier and people have checked."""

import csv
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from PIL import Image

from pipeline.errors import AssayError
from pipeline.ingest.ingesting import ingest_into
from pipeline.matching.probe import linear_probe
from pipeline.models.timm import load
from pipeline.pair_commands import pairs as command
from pipeline.pair_studies import ask_people, check_with, judge_pairs, probed_point
from pipeline.pairs.edited import pairs
from pipeline.pairs.editing import make_pairs
from pipeline.rater_commands import cost
from pipeline.study.frozen import FrozenStudy, require_as_frozen
from pipeline.study.settings import StudySettings

COLOURS = {"red": (210, 40, 40), "green": (40, 180, 60), "blue": (40, 60, 210)}
NAMES = [*COLOURS, "never seen"]
CONFIG: dict[str, Any] = {
    "model": {
        "name": "timm",
        "arch": "test_resnet",
        "weights": {"source": "random", "seed": 0},
        "input_size": 32,
        "pool": "avg",
        "dtype": "float32",
    },
    "layer": "layer1",
    "device": "cpu",
    "loader": {"batch_size": 8, "workers": 0},
    "numerics": {"precision": "float32", "tf32": False, "threads": 1},
}
PAIRS = [("red", "blue"), ("green", "red"), ("blue", "blue"), ("blue", "green")]
"""Colours shown before and after; the third edit failed, though it says that blue became green."""


def picture(colour: str, seed: int) -> Image.Image:
    noise = np.random.default_rng(seed).integers(-25, 26, (32, 32, 3))
    return Image.fromarray(np.clip(np.array(COLOURS[colour]) + noise, 0, 255).astype(np.uint8))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A data set of four pairs of one-coloured pictures."""
    folder = tmp_path / "edits"
    folder.mkdir()
    rows = ["pair_id,before,after,removed,added,present"]
    for i, (before, after) in enumerate(PAIRS):
        picture(before, 2 * i).save(folder / f"{i}_before.png")
        picture(after, 2 * i + 1).save(folder / f"{i}_after.png")
        said = "green" if i == 2 else after
        rows.append(f"p{i},{i}_before.png,{i}_after.png,{before},{said},{before}")
    (folder / "metadata.csv").write_text("\n".join(rows))
    make_pairs(folder, tmp_path / "pairs")
    return tmp_path / "pairs"


def sheet(root: Path) -> dict[str, dict[str, str]]:
    with (root / "pairs.csv").open(newline="") as stream:
        return {row["pair_id"]: row for row in csv.DictReader(stream)}


@pytest.fixture(scope="module")
def probe() -> Any:
    """A probe of the colours on the layer of CONFIG, fitted on pictures of its own."""
    import torch

    from pipeline.models.capture import capture

    loaded = load(arch="test_resnet", weights=CONFIG["model"]["weights"], input_size=32)
    shown = [list(COLOURS)[i % 3] for i in range(60)]
    batch = torch.stack([loaded.transform(picture(c, 100 + i)) for i, c in enumerate(shown)])
    with torch.inference_mode(), capture(loaded.module, ["layer1"], "avg") as forward:
        x = forward(batch)["layer1"].numpy()
    y = np.array([[colour == name for name in NAMES] for colour in shown])
    return linear_probe(x[:40], y[:40], x[40:], y[40:], seed=0, max_epochs=60)


def test_a_probe_sees_the_edits_that_worked_and_not_the_one_that_failed(root: Path, probe: Any) -> None:
    before = sheet(root)
    table = check_with(root, probe, NAMES, CONFIG)
    after = sheet(root)
    assert [after[f"p{i}"]["classifier"] for i in range(4)] == ["yes", "yes", "no", "yes"]
    assert float(after["p0"]["p_removed_before"]) > 0.5 > float(after["p0"]["p_removed_after"])
    assert {name: after["p0"][name] for name in before["p0"]} == before["p0"]
    assert set(table["reason"]) == {""}


def test_a_pair_without_a_verdict_is_blank_with_its_reason(root: Path, probe: Any) -> None:
    text = (root / "pairs.csv").read_text().replace(",green,red,", ",green,never seen,")
    (root / "pairs.csv").write_text(text.replace(",blue,green,blue\n", ",blue,pink,blue\n", 1))
    table = check_with(root, probe, NAMES, CONFIG).set_index("pair_id")
    assert sheet(root)["p1"]["classifier"] == sheet(root)["p2"]["classifier"] == ""
    assert "could not be trained" in table["reason"]["p1"]
    assert table["reason"]["p2"] == "unknown attribute"


def test_a_sweep_with_no_probe_or_two_is_refused() -> None:
    def point(key: str, layer: str) -> Any:
        return SimpleNamespace(keys={"probe": key}, values={"model": {"arch": "a"}, "layer": layer})

    def prepared(*points: Any) -> Any:
        store = SimpleNamespace(folder=lambda stage, key: Path("/none") / stage / key)
        return SimpleNamespace(build=SimpleNamespace(points=points), store=store)

    with pytest.raises(AssayError, match="has 0 probes"):
        probed_point(prepared(SimpleNamespace(keys={}, values={})))
    with pytest.raises(AssayError, match=r"2 probes: model\.arch=a layer=x, model\.arch=a layer=y"):
        probed_point(prepared(point("k1", "x"), point("k2", "y")))
    with pytest.raises(AssayError, match=r"probe/k1 is not there yet: run the sweep first"):
        probed_point(prepared(point("k1", "x"), point("k1", "x")))


def ask(root: Path, studies: Path, name: str = "check", before: bool = False) -> FrozenStudy:
    settings = StudySettings(inputs_per_task=4)
    return ask_people(root, studies, name, settings, before=before, texts={"red": "the colour red"})


def answer(study: FrozenStudy, path: Path, truth: Any, workers: int = 3) -> None:
    """Ingest what people say who see what `truth(image_id, description)` says."""
    rows = [
        (f"w{w}", key, "yes" if truth(image, text) else "no")
        for key, image, text in study.inputs[["input_id", "image_id", "description"]].itertuples(index=False)
        for w in range(workers)
    ]
    pd.DataFrame(rows, columns=["worker", "input_id", "rating"]).to_csv(path, index=False)
    (study.folder / "ingested").mkdir(exist_ok=True)
    ingest_into(study.folder, [path])


def shown(root: Path) -> Any:
    colour_of = {
        row[side]: PAIRS[int(key[1:])][i]
        for key, row in sheet(root).items()
        for i, side in enumerate(("before", "after"))
    }
    return lambda image, text: text.removeprefix("the colour ") == colour_of[image]


@pytest.mark.parametrize("before", [False, True])
def test_people_accept_the_edits_that_worked_and_the_source_uses_those(
    root: Path, tmp_path: Path, before: bool
) -> None:
    study = ask(root, tmp_path / "studies", before=before)
    require_as_frozen(study)
    assert len(study.inputs) == (16 if before else 8)
    assert "the colour red" in set(study.inputs["description"])
    media = {study.images.encoded(image)[1] for image in study.inputs["image_id"]}
    assert media == {"image/png"}
    answer(study, tmp_path / "ratings.csv", shown(root))
    assert judge_pairs(root, study) == {"accepted": 3, "rejected": 1, "undecided": 0}
    assert sheet(root)["p2"]["accepted"] == "no" and sheet(root)["p2"]["votes_after_added"] == "0/3"
    found = pairs(tmp_path, attributes=list(COLOURS), root=root)
    assert found.table["pair_id"].tolist() == ["p0", "p1", "p3"]
    assert found.skipped["reason"].tolist() == ["not accepted"]


def test_the_cost_is_told_by_raters_and_no_error_of_a_score_that_does_not_exist(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(root, tmp_path / "studies")
    (tmp_path / "Snakefile").touch()
    (tmp_path / "conf").mkdir()
    monkeypatch.chdir(tmp_path)
    said = CliRunner().invoke(cost, ["--study", "check"])
    assert said.exit_code == 0, said.output
    assert "3 attributes of edited images" in said.output
    assert re.search(r"^\* +3 +\$", said.output, re.MULTILINE)
    assert "error" not in said.output
    refused = CliRunner().invoke(cost, ["--study", "check", "--plan"])
    assert "asks about edited images" in str(refused.exception)


def test_pairs_that_people_did_not_rate_are_undecided(root: Path, tmp_path: Path) -> None:
    study = ask(root, tmp_path / "studies")
    with pytest.raises(AssayError, match=r"ratings\.parquet is not there: first assay ingest"):
        judge_pairs(root, study)
    answer(study, tmp_path / "ratings.csv", shown(root), workers=0)
    with pytest.raises(AssayError, match="first assay ingest"):
        judge_pairs(root, study)


def test_a_study_never_changes_and_one_of_other_pairs_is_refused(root: Path, tmp_path: Path) -> None:
    study = ask(root, tmp_path / "studies")
    with pytest.raises(AssayError, match="exists and a study never changes"):
        ask(root, tmp_path / "studies")
    answer(study, tmp_path / "ratings.csv", shown(root))
    kept = (root / "pairs.csv").read_text().splitlines()
    (root / "pairs.csv").write_text("\n".join(kept[:3]))
    with pytest.raises(AssayError, match=r"asks about a pair 'p2', which .*pairs\.csv lacks"):
        judge_pairs(root, study)
    (study.folder / "questions.csv").unlink()
    with pytest.raises(AssayError, match="does not ask about pairs"):
        judge_pairs(root, study)


def test_an_image_that_changed_after_the_freeze_is_not_shown(root: Path, tmp_path: Path) -> None:
    study = ask(root, tmp_path / "studies")
    image = study.inputs["image_id"][0]
    picture("red", 99).save(root / image)
    with pytest.raises(AssayError, match="changed since its manifest"):
        study.images.encoded(image)


def test_the_command_makes_pairs_and_says_what_it_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "removed=red" / "before"
    for side in ("before", "after"):
        (folder.parent / side).mkdir(parents=True, exist_ok=True)
        picture("red" if side == "before" else "blue", len(side)).save(folder.parent / side / "x.png")
    picture("green", 5).save(folder / "lone.png")
    said = CliRunner().invoke(command, ["make", str(tmp_path), "--out", str(tmp_path / "out")])
    assert said.exit_code == 0, said.output
    assert f"1 pairs of 2 images: {tmp_path / 'out'}" in said.output
    assert "in only one of before/ and after/: 1: lone" in said.output
    assert (tmp_path / "out/pairs.csv").is_file()
