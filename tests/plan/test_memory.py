"""The planner's memory saves work and is never believed against the evidence."""

import os
import random
import sqlite3

import pytest

from pipeline.plan.memory import Memory


@pytest.fixture
def whole(tmp_path):
    """A memory of 60 texts and 20 checksums in one file, and the files."""
    files = []
    for n in range(20):
        path = tmp_path / f"file_{n}"
        path.write_text(f"contents {n}")
        files.append(path)
    memory = Memory(tmp_path / "memory.sqlite")
    for n in range(60):
        memory.text(f"name {n}", lambda n=n: f"text {n} " * 20)
    for path in files:
        os.utime(path, (1e9, 1e9))  # one that is young is not remembered
    memory.checksums(files)
    memory._ask("pragma wal_checkpoint(truncate)")
    memory.close()
    return tmp_path / "memory.sqlite", files


def recalled(path, files):
    """Return all texts and checksums, and how much of them had to be made anew."""
    memory, made = Memory(path), []
    texts = [memory.text(f"name {n}", lambda n=n: made.append(n) or f"text {n} " * 20) for n in range(60)]
    sums = memory.checksums(files)
    hashed = memory.hashed_bytes
    memory.close()
    return texts, sums, len(made), hashed


def test_what_was_remembered_is_not_made_again(whole):
    path, files = whole
    _, _, made, hashed = recalled(path, files)
    assert (made, hashed) == (0, 0)


def test_flipped_bits_change_no_answer(whole):
    path, files = whole
    expected, sound = recalled(path, files)[:2], path.read_bytes()
    for seed in range(60):
        rng, data = random.Random(seed), bytearray(sound)
        for _ in range(1 + seed % 20):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        for each in path.parent.glob("memory.sqlite*"):
            each.unlink()
        path.write_bytes(data)
        assert recalled(path, files)[:2] == expected, seed
        assert recalled(path, files)[:2] == expected, "the second run reads what the first wrote"


@pytest.mark.parametrize("content", [b"", b"no database", b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_file_that_is_no_database_is_made_anew(whole, content):
    path, files = whole
    expected = recalled(path, files)[:2]
    path.write_bytes(content)
    assert recalled(path, files)[:2] == expected
    assert recalled(path, files)[2] == 0


def test_a_damaged_file_goes_with_its_log(whole):
    path, files = whole
    log = path.with_name(path.name + "-wal")
    path.write_bytes(b"no database")
    log.write_bytes(b"of the old file")
    recalled(path, files)
    assert not log.exists() or log.read_bytes() != b"of the old file"


def test_a_full_disk_costs_the_memory_and_not_the_run(whole, monkeypatch):
    path, _ = whole
    memory = Memory(path)
    memory._ask(f"pragma max_page_count={memory._ask('pragma page_count')[0][0]}")  # SQLITE_FULL from here on
    texts = [memory.text(f"new {n}", lambda n=n: f"{n}" * 9000) for n in range(20)]
    memory.close()
    assert texts == [f"{n}" * 9000 for n in range(20)]
    assert sqlite3.connect(path).execute("select count(*) from sealed_texts").fetchone()[0] >= 60
