"""Pictures, files and references of runs, read back from the offline logs."""

import hashlib
import json
from base64 import b64encode
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from PIL import Image

from pipeline.errors import AssayError
from pipeline.report.tracking import PointRecord, RunRecord, SweepRecord, log_sweep
from pipeline.report.wandb_artifacts import artifact_name
from pipeline.report.wandb_log import _parsed, _records

POINT = PointRecord("k000000000000", "a point", {}, {}, {})


def records(run: RunRecord, kind: str) -> list[Any]:
    """Return the records of a kind in a run's log."""
    (log,) = run.directory.glob("*.wandb")
    return [getattr(r, kind) for r in map(_parsed, _records(log)) if r.WhichOneof("record_type") == kind]


def result(folder: Path, stage: str) -> Path:
    path = folder / "results" / stage / "k000000000001"
    (path / "parts").mkdir(parents=True)
    (path / "meta.json").write_text(json.dumps({"outputs": {"parts/a b#1.npy": {}}}))
    (path / "parts" / "a b#1.npy").write_bytes(b"\x00" * 4096)
    (path / "parts" / "foreign.npy").write_bytes(b"nobody's")
    return path


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[RunRecord], Path]:
    folder = tmp_path_factory.mktemp("artifacts")
    image, report = folder / "map.png", folder / "report.html"
    Image.new("RGB", (30, 20), "green").save(image)
    report.write_text("<h1>demo</h1>")
    scoring, images = result(folder, "scoring"), result(folder, "images")
    point = replace(POINT, images={"sample 1": image}, references=(scoring, images, scoring))
    about = SweepRecord("demo: a", "kc", {}, {}, files={"report.html": report, "tables/a.csv": report})
    runs = log_sweep([point], about, project="p", directory=folder / "out")
    return runs, folder


def test_a_points_pictures_are_files_of_its_run(tmp_path: Path) -> None:
    image = tmp_path / "map.png"
    Image.new("RGB", (30, 20), "green").save(image)
    point = replace(POINT, images={"sample 1": image})
    (run, _) = log_sweep([point], SweepRecord("demo", "kc", {}, {}), project="p", directory=tmp_path / "out")
    (name,) = [file.path for files in records(run, "files") for file in files.files]
    assert name.startswith("media/images/sample 1") and name.endswith(".png")
    assert (run.directory / "files" / name).read_bytes() == image.read_bytes()


def test_results_are_pointed_at_by_stage_key_and_checksum(logged: tuple[list[RunRecord], Path]) -> None:
    runs, folder = logged
    (artifact,) = records(runs[0], "artifact")
    assert (artifact.name, artifact.type) == ("results-k000000000000", "results")
    entries = {entry.path: entry for entry in artifact.manifest.contents}
    names = {
        f"{stage}/k000000000001/{file}"
        for stage in ("scoring", "images")
        for file in ("meta.json", "parts/a b#1.npy")
    }
    assert entries.keys() == names
    entry = entries["scoring/k000000000001/parts/a b#1.npy"]
    assert entry.ref == (folder / "results" / entry.path).as_uri()
    assert entry.digest == b64encode(hashlib.md5(bytes(4096)).digest()).decode()
    assert (entry.size, entry.local_path) == (4096, "")
    assert not any(path.suffix == ".npy" for path in runs[0].directory.rglob("*"))


def test_the_sweeps_files_are_in_its_run_wherever_that_is_moved(logged: tuple[list[RunRecord], Path]) -> None:
    runs, folder = logged
    (artifact,) = records(runs[-1], "artifact")
    assert (artifact.name, artifact.type) == ("demo--a-report", "report")
    assert [entry.path for entry in artifact.manifest.contents] == ["report.html", "tables/a.csv"]
    for entry in artifact.manifest.contents:
        assert not Path(entry.local_path).is_absolute()
        assert (folder / "out" / entry.local_path).read_text() == "<h1>demo</h1>"


def test_a_point_without_references_has_no_artifact(tmp_path: Path) -> None:
    runs = log_sweep([POINT], SweepRecord("demo", "kc", {}, {}), project="p", directory=tmp_path / "out")
    assert [records(run, "artifact") for run in runs] == [[], []]


def test_a_curve_is_drawn_over_the_first_column_and_has_no_point_for_a_null(tmp_path: Path) -> None:
    history = pd.DataFrame({"share": [0.0, 0.5], "ins": [0.25, None]})
    point = replace(POINT, history=history)
    (run, _) = log_sweep([point], SweepRecord("demo", "kc", {}, {}), project="p", directory=tmp_path / "out")
    assert [(metric.name, metric.step_metric) for metric in records(run, "metric")][-1] == ("ins", "share")
    rows = [{item.nested_key[0] for item in row.item} for row in records(run, "history")]
    assert [row & {"share", "ins"} for row in rows] == [{"share", "ins"}, {"share"}, set()]


def test_the_machines_name_is_in_no_run(logged: tuple[list[RunRecord], Path]) -> None:
    for run in logged[0]:
        assert [told.host for told in records(run, "run")] == [""]


@pytest.mark.parametrize("where", ["file", "reference"])
def test_what_is_not_there_is_named(tmp_path: Path, where: str) -> None:
    gone = tmp_path / "gone"
    about = SweepRecord("demo", "kc", {}, {}, files={"a": gone} if where == "file" else {})
    point = replace(POINT, references=(gone,) if where == "reference" else ())
    with pytest.raises(AssayError, match=r"gone is not there, so no W&B run can have it"):
        log_sweep([point], about, project="p", directory=tmp_path / "out")


def test_names_of_artifacts_are_ones_that_wandb_takes() -> None:
    assert artifact_name("démo: a/b") == "d-mo--a-b"
    assert len(artifact_name("a" * 200)) == 128
