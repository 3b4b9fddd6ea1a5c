"""Results on disk: what a damaged meta.json and a jump of the clock may not do."""

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.files import sha256, write_json
from pipeline.plan import store as store_module
from pipeline.plan.project import Project
from pipeline.plan.store import Store, hidden_name

DAY = 24 * 3600


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project with one result, units/k1, of one file."""
    folder = tmp_path / "results" / "units" / "k1"
    folder.mkdir(parents=True)
    (folder / "units.parquet").write_bytes(b"units")
    outputs = {"units.parquet": {"sha256": sha256(folder / "units.parquet"), "size": 5}}
    meta = {
        "stage": "units",
        "key": "k1",
        "slice": {"unit.n": 4},
        "upstream": {"activations": "k2"},
        "inputs": {"activations/k2": {"a.npy": "0"}},
        "code": {"pipeline.stages.units": "1"},
        "libraries": {"numpy": "2"},
        "files": {},
        "outputs": outputs,
        "notes": ["a note"],
        "started": 1.0,
    }
    write_json(folder / "meta.json", meta)
    return Project(tmp_path)


def test_no_flipped_bit_in_meta_makes_a_reader_stumble(project: Project) -> None:
    path = project.result("units", "k1") / "meta.json"
    whole, rng = path.read_bytes(), random.Random(0)
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        store = Store(project)
        damage, meta = store.damage("units", "k1", thorough=True), store.meta("units", "k1")
        assert meta is not None or damage == "meta.json is missing or cannot be read"
        if meta:
            assert all(facts["sha256"] + str(facts["size"]) for facts in meta["outputs"].values())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("outputs", {"units.parquet": {"sha257": "0", "size": 5}}),
        ("outputs", {"units.parquet": {"sha256": "0", "size": "5"}}),
        ("outputs", []),
        ("inputs", {"activations/k2": "0"}),
        ("code", {"pipeline.stages.units": 1}),
        ("notes", "a note"),
        ("slice", None),
    ],
)
def test_a_meta_of_another_form_is_damage(project: Project, name: str, value: object) -> None:
    path = project.result("units", "k1") / "meta.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {name: value}))
    assert Store(project).damage("units", "k1") == "meta.json is missing or cannot be read"


@pytest.mark.parametrize("seconds", [-400 * DAY, -DAY, 0, DAY, 400 * DAY])
def test_a_clock_that_jumps_takes_no_folder_from_a_process_at_work(project: Project, seconds: int) -> None:
    folder = project.results / "units" / hidden_name("k2")
    folder.mkdir()
    moved = folder.stat().st_mtime + seconds
    os.utime(folder, (moved, moved))
    assert Store(project).sweep_leftovers() == 0
    assert folder.is_dir()


def test_a_folder_of_a_dead_process_goes(project: Project) -> None:
    code = "from pipeline.plan.store import hidden_name; print(hidden_name('k2'))"
    name = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    (project.results / "units" / name.strip()).mkdir()
    assert Store(project).sweep_leftovers() == 1


def test_a_folder_of_a_dead_process_goes_where_another_has_its_number(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr(store_module, "_born", lambda pid: "1")
        folder = project.results / "units" / hidden_name("k2")
    folder.mkdir()
    assert Store(project).sweep_leftovers() == 1


@pytest.mark.parametrize(("days", "removed"), [(29, 0), (31, 1)])
def test_a_folder_of_another_machine_stays_for_30_days(
    project: Project, monkeypatch: pytest.MonkeyPatch, days: int, removed: int
) -> None:
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(store_module, "_machine", lambda: "node17")
        folder = project.results / "units" / hidden_name("k2")
    folder.mkdir()
    then = folder.stat().st_mtime - days * DAY
    os.utime(folder, (then, then))
    assert Store(project).sweep_leftovers() == removed


def test_a_folder_of_another_machine_stays(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(store_module, "_machine", lambda: "node17")
        elsewhere.setattr(store_module, "_born", lambda pid: "1")
        folder = project.results / "units" / hidden_name("k2")
    folder.mkdir()
    assert Store(project).sweep_leftovers() == 0
    shutil.rmtree(folder)
