"""W&B runs, written for real and read back from the transaction logs."""

import json
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from pipeline.errors import AssayError
from pipeline.report.crowd_runs import point_record, point_summary, sweep_record, sweep_summary
from pipeline.report.tracking import PointRecord, RunRecord, SweepRecord, log_sweep, run_id
from pipeline.statistics.comparison import compare

FACTORS = ("layer", "scoring")
METHODS = ("clip_dissect", "random")
BLOCK = 32 * 1024


def scores() -> pd.DataFrame:
    rows = [
        {"layer": "l1", "scoring": scoring, "method": method, "unit": unit, "description": f"text {unit}"}
        | {"estimate": value, "n_images": 9, "n_ratings": 27 * (scoring == "crowd"), "flags": "no_interval"}
        for scoring, (method, values) in product(
            ("crowd", "oracle"), {"clip_dissect": [0.5, 0.3, np.nan], "random": [0.1, -0.1, 0.0]}.items()
        )
        for unit, value in enumerate(values)
    ]
    table = pd.DataFrame(rows)
    table.loc[(table["scoring"] == "oracle") & (table["method"] == "clip_dissect"), "estimate"] = [
        0.4,
        0.2,
        0.1,
    ]
    return table


def records(folder: Path) -> tuple[list[PointRecord], SweepRecord]:
    table = scores()
    cells = [("crowd", "clip_dissect"), ("crowd", "random"), ("oracle", "clip_dissect")]
    Image.new("RGB", (40, 30), "red").save(folder / "figure.png")
    comparison = compare(table, factors=FACTORS, n_bootstrap=10)
    points = [
        point_record(
            key=f"k{number:012d}",
            config={"layer": "l1", "crowd": {"n_raters": 3, "miss": 0.1}},
            factors={"layer": "l1", "scoring": scoring},
            scores=table[(table["scoring"] == scoring) & (table["method"] == method)].drop(
                columns=list(FACTORS)
            ),
            comparison=comparison,
            tags=("crowd", method),
            results={"scoring": f"k{number:012d}", "study": "kaaaaaaaaaaaa"},
        )
        for number, (scoring, method) in enumerate(cells)
    ]
    return points, sweep_record("demo", "kcccccccccccc", comparison, folder / "figure.png", {"seed": 0})


def log_records(path: Path) -> Iterator[Any]:
    """Read a .wandb file: a 7-byte header, then LevelDB's log format around protobuf records."""
    from wandb.proto import wandb_internal_pb2

    messages: Any = wandb_internal_pb2

    data = path.read_bytes()
    assert data[:4] == b":W&B"
    position, parts = 7, b""
    while position + 7 <= len(data):
        if (left := BLOCK - position % BLOCK) < 7:
            position += left
            continue
        _, size, kind = struct.unpack("<IHB", data[position : position + 7])
        parts += data[position + 7 : position + 7 + size]
        position += 7 + size
        if kind in (1, 4):
            record = messages.Record()
            record.ParseFromString(parts)
            parts = b""
            yield record


def read(run: RunRecord) -> dict[str, Any]:
    """Return what one log holds: the run record, config, last summary values and uploaded files."""
    found: dict[str, Any] = {"summary": {}, "files": [], "kinds": set()}
    for record in log_records(next(run.directory.glob("*.wandb"))):
        kind = record.WhichOneof("record_type")
        found["kinds"].add(kind)
        if kind == "run":
            found["run"] = record.run
            found["config"] = {item.key: json.loads(item.value_json) for item in record.run.config.update}
        if kind == "summary":
            for item in record.summary.update:
                found["summary"]["/".join(item.nested_key) or item.key] = json.loads(item.value_json)
        if kind == "files":
            found["files"] += [file.path for file in record.files.files]
    return found


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[RunRecord], Path]:
    folder = tmp_path_factory.mktemp("tracking")
    points, sweep = records(folder)
    return log_sweep(points, sweep, project="assay-tests", directory=folder / "out"), folder


def test_each_point_is_a_run_and_the_sweep_is_one_more(logged: tuple[list[RunRecord], Path]) -> None:
    runs, folder = logged
    assert len({run.id for run in runs}) == 4
    assert [run.name for run in runs][2:] == ["l1 oracle clip_dissect", "demo"]
    assert {run.directory for run in runs} == set((folder / "out" / "wandb").iterdir())
    assert runs[0].id == run_id("assay-tests", "demo", "point", "k000000000000")
    for run, kind in zip(runs, ["point", "point", "point", "sweep"], strict=True):
        record = read(run)["run"]
        assert (record.run_id, record.project, record.display_name) == (run.id, "assay-tests", run.name)
        assert (record.run_group, record.job_type) == ("demo", kind)


def test_a_point_holds_its_config_tags_scores_and_error(logged: tuple[list[RunRecord], Path]) -> None:
    found = read(logged[0][0])
    assert found["config"]["crowd"] == {"n_raters": 3, "miss": 0.1}
    assert found["config"]["factors"] == {"layer": "l1", "scoring": "crowd"}
    assert list(found["run"].tags) == ["crowd", "clip_dissect"]
    expected = {"n_units": 2, "n_missing": 1, "n_ratings": 81, "key": "k000000000000"}
    expected |= {"results/scoring": "k000000000000", "results/study": "kaaaaaaaaaaaa"}
    assert {name: found["summary"][name] for name in expected} == expected
    assert found["summary"]["mean_estimate"] == pytest.approx(0.4)
    assert found["summary"]["rce"] == pytest.approx((0.1 / 0.4 + 0.1 / 0.2) / 2)
    assert "rce" not in read(logged[0][2])["summary"]


def test_the_table_of_a_point_is_a_file_of_its_run(logged: tuple[list[RunRecord], Path]) -> None:
    run = logged[0][0]
    found = read(run)
    path = run.directory / "files" / found["summary"]["scores/path"]
    assert found["files"] == [found["summary"]["scores/path"]]
    assert found["summary"]["scores/_type"] == "table-file"
    table = json.loads(path.read_text())
    assert table["columns"] == list(records(logged[1])[0][0].tables["scores"].columns)
    assert table["data"][0] == ["clip_dissect", 0, "text 0", 0.5, 9, 27, "no_interval"]
    assert table["data"][2][3] is None


def test_the_sweeps_run_holds_tables_figure_and_the_best_method(logged: tuple[list[RunRecord], Path]) -> None:
    runs, _ = logged
    found = read(runs[-1])
    assert found["summary"]["best_method/crowd"] == "clip_dissect"
    assert found["summary"]["best_mean/crowd"] == pytest.approx(0.4)
    assert found["config"]["seed"] == 0
    for name, n_rows in {"methods": 8, "pairs": 4, "errors": 6}.items():
        table = json.loads((runs[-1].directory / "files" / found["summary"][f"{name}/path"]).read_text())
        assert len(table["data"]) == found["summary"][f"{name}/nrows"] == n_rows
    picture = Image.open(runs[-1].directory / "files" / found["summary"]["figure/path"])
    assert picture.size == (40, 30)


def test_a_run_holds_nothing_of_the_machine(logged: tuple[list[RunRecord], Path]) -> None:
    for run in logged[0]:
        found = read(run)
        assert not found["kinds"] & {"stats", "output", "output_raw", "environment", "artifact"}
        assert not found["run"].HasField("git")
        names = {path.name for path in run.directory.rglob("*") if path.is_file()}
        assert not names & {"requirements.txt", "wandb-metadata.json", "output.log", "debug.log"}
        assert not any(path.is_symlink() for path in run.directory.rglob("*"))


def test_logging_again_replaces_every_run_whatever_the_environment_says(
    tmp_path: Path, logged: tuple[list[RunRecord], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign = {"MODE": "online", "RUN_ID": "x", "RUN_GROUP": "x", "DIR": str(tmp_path / "no")}
    for name, value in foreign.items():
        monkeypatch.setenv(f"WANDB_{name}", value)
    points, sweep = records(tmp_path)
    before = dict(os.environ)
    first = log_sweep(points, sweep, project="assay-tests", directory=tmp_path / "out")
    again = log_sweep([*points, points[0]], sweep, project="assay-tests", directory=tmp_path / "out")
    assert [run.id for run in first] == [run.id for run in again] == [run.id for run in logged[0]]
    assert {run.directory for run in again} == set((tmp_path / "out" / "wandb").iterdir())
    assert dict(os.environ) == before
    assert not (tmp_path / "no").exists()


OFFLINE = """
import atexit, socket, sys
from pathlib import Path
asked = []
atexit.register(lambda: print("asked", asked))
socket.getaddrinfo = lambda *names, **_: asked.append(names[0]) or []
sys.path.insert(0, sys.argv[1])
import test_tracking
points, sweep = test_tracking.records(Path(sys.argv[2]))
test_tracking.log_sweep(points, sweep, project="assay-tests", directory=Path(sys.argv[2]) / "out")
"""


def test_an_offline_process_is_quiet_and_looks_up_no_host_even_when_it_ends(tmp_path: Path) -> None:
    command = [sys.executable, "-c", OFFLINE, str(Path(__file__).parent), str(tmp_path)]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120, cwd=root)
    assert (done.stdout, done.stderr) == ("asked []\n", "")


def test_an_id_depends_on_project_sweep_kind_and_key() -> None:
    ids = {run_id(*names) for names in product(("p", "q"), ("s", "t"), ("point", "sweep"), ("k1", "k2"))}
    assert len(ids) == 16
    assert run_id("p", "s", "point", "k1") == "9606b74b8929813e"


def test_nulls_are_left_out_of_a_summary() -> None:
    table = scores()
    comparison = compare(table, factors=FACTORS, n_bootstrap=10)
    found = point_summary(
        table.head(3).assign(estimate=np.nan), {"layer": "l1", "scoring": "crowd"}, comparison
    )
    assert (found["n_units"], found["n_missing"]) == (0, 3)
    assert "mean_estimate" not in found


def test_one_way_of_judging_has_one_best_method() -> None:
    table = scores()
    comparison = compare(table[table["scoring"] == "crowd"], factors=FACTORS, n_bootstrap=10)
    assert sweep_summary(comparison)["best_method"] == "clip_dissect"


@pytest.mark.parametrize("project", ["", "a/b", "p" * 129])
def test_a_project_that_wandb_refuses_is_named_before_anything_is_written(
    tmp_path: Path, project: str
) -> None:
    points, sweep = records(tmp_path)
    with pytest.raises(AssayError, match=r"tracking\.project="):
        log_sweep(points, sweep, project=project, directory=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_tag_that_is_too_long_is_named(tmp_path: Path) -> None:
    points, sweep = records(tmp_path)
    with pytest.raises(AssayError, match=r"tag 't+' has 65 characters"):
        log_sweep(points, replace(sweep, tags=("t" * 65,)), project="assay-tests", directory=tmp_path / "out")


def test_online_without_a_login_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [])
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    points, sweep = records(tmp_path)
    with pytest.raises(AssayError, match=r"set tracking\.mode=offline"):
        log_sweep(points, sweep, project="assay-tests", mode="online", directory=tmp_path / "out")
