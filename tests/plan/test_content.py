"""Paths stand for the bytes behind them."""

import os
import time

import pytest

from pipeline.errors import AssayError
from pipeline.files import sha256
from pipeline.plan.content import file_checksum, folder_checksum, matching, packaged_file
from pipeline.plan.memory import Memory
from pipeline.plan.settings.base import IMAGE_FILES


@pytest.fixture
def memory(tmp_path):
    memory = Memory(tmp_path / "memory.sqlite")
    yield memory
    memory.close()


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "data"
    (root / "images").mkdir(parents=True)
    (root / "images" / "a.png").write_bytes(b"a")
    (root / "images" / "b.JPG").write_bytes(b"b")
    (root / "concepts.csv").write_text("image,concept\n")
    return root


def age(path, seconds):
    stat = path.stat()
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns - int(seconds * 1e9)))


def test_suffixes_match_at_any_depth_in_any_case_and_names_at_the_top(folder):
    (folder / "images" / ".hidden.png").write_bytes(b"h")
    (folder / "images" / "concepts.csv").write_text("deeper")
    assert [p.name for p in matching(folder, IMAGE_FILES)] == ["a.png", "b.JPG"]
    assert matching(folder, ("concepts.csv",)) == [folder / "concepts.csv"]


@pytest.mark.parametrize("change", ["edit", "rename", "add", "remove"])
def test_a_folders_checksum_sees_every_change_of_its_files(memory, folder, change):
    before = folder_checksum(memory, folder, IMAGE_FILES, "dataset.root")
    path = folder / "images" / "a.png"
    if change == "edit":
        path.write_bytes(b"x")
    elif change == "rename":
        path.rename(path.with_name("c.png"))
    elif change == "add":
        (folder / "images" / "c.png").write_bytes(b"a")
    else:
        path.unlink()
    assert folder_checksum(memory, folder, IMAGE_FILES, "dataset.root") != before


def test_a_folders_checksum_is_the_same_elsewhere_and_leaves_other_files_alone(memory, folder, tmp_path):
    before = folder_checksum(memory, folder, IMAGE_FILES, "dataset.root")
    (folder / "concepts.csv").write_text("image,concept\na.png,dog\n")
    moved = folder.rename(tmp_path / "elsewhere")
    assert folder_checksum(memory, moved, IMAGE_FILES, "dataset.root") == before


def test_a_remembered_checksum_saves_the_reading(memory, folder):
    path = folder / "concepts.csv"
    age(path, 10)
    first = memory.checksums([path])[path]
    read = memory.hashed_bytes
    assert memory.checksums([path])[path] == first == sha256(path)
    assert memory.hashed_bytes == read


def test_a_young_file_is_read_again(memory, folder):
    path = folder / "concepts.csv"
    path.write_text("one")
    memory.checksums([path])
    stat = path.stat()
    path.write_text("two")
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert time.time() - path.stat().st_mtime < 2
    assert memory.checksums([path])[path] == sha256(path)


def test_what_is_missing_is_named_with_its_key(memory, folder):
    with pytest.raises(AssayError, match=r"dataset\.root: no folder or file .*nowhere"):
        folder_checksum(memory, folder / "nowhere", IMAGE_FILES, "dataset.root")
    with pytest.raises(AssayError, match=r"explainer\.path: no file .*nothing\.csv"):
        file_checksum(memory, folder / "nothing.csv", "explainer.path")
    with pytest.raises(AssayError, match=r"model\.weights: the package 'no-such' is not installed"):
        packaged_file("no-such", "x", "model.weights")
    with pytest.raises(AssayError, match="has no file 'x'"):
        packaged_file("numpy", "x", "model.weights")


def test_a_folder_for_a_file_and_a_file_for_a_folder_are_told_apart(memory, folder):
    with pytest.raises(
        AssayError, match=r"explainer\.path: .*data is a folder; set explainer\.path to a file"
    ):
        file_checksum(memory, folder, "explainer.path")
    with pytest.raises(AssayError, match=r"dataset\.root: .*csv is a file; set dataset\.root to a folder"):
        folder_checksum(memory, folder / "concepts.csv", IMAGE_FILES, "dataset.root")


def test_a_deleted_memory_only_costs_work(tmp_path, folder):
    values = []
    for _ in range(2):
        memory = Memory(tmp_path / "m" / "memory.sqlite")
        values.append(folder_checksum(memory, folder, IMAGE_FILES, "dataset.root"))
        memory.close()
        (tmp_path / "m" / "memory.sqlite").unlink()
    assert values[0] == values[1]
