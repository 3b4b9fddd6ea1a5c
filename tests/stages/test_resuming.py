"""What a resumable job has done is kept, used again, and never mixed up."""

import json
import math
from pathlib import Path

import pytest

from pipeline.stages import resuming
from pipeline.stages.resuming import Record, resumed

ITEMS = {"a": 1, "b": 2, "c": 3}


def squares(item: int, jobs: list[int]) -> list[Record]:
    return [{"square": item**2 + 100 * job} for job in jobs]


def test_every_job_gets_the_records_of_all_items_in_their_order(tmp_path: Path) -> None:
    found = resumed(ITEMS, [tmp_path / "0", tmp_path / "1"], squares, "items")
    assert found == [[{"square": s + 100 * job} for s in (1, 4, 9)] for job in (0, 1)]


def test_what_was_made_before_is_not_made_again(tmp_path: Path) -> None:
    resumed({"b": 2}, [tmp_path / "0"], squares, "items")
    asked: list[tuple[int, list[int]]] = []

    def counting(item: int, jobs: list[int]) -> list[Record]:
        asked.append((item, jobs))
        return squares(item, jobs)

    found = resumed(ITEMS, [tmp_path / "0", tmp_path / "1"], counting, "items")
    assert asked == [(1, [0, 1]), (2, [1]), (3, [0, 1])]
    assert [record["square"] for record in found[0]] == [1, 4, 9]
    assert [record["square"] for record in found[1]] == [101, 104, 109]


def test_a_stop_in_the_middle_keeps_what_was_done(tmp_path: Path) -> None:
    def stopping(item: int, jobs: list[int]) -> list[Record]:
        if item == 3:
            raise KeyboardInterrupt
        return squares(item, jobs)

    with pytest.raises(KeyboardInterrupt):
        resumed(ITEMS, [tmp_path / "0"], stopping, "items")
    kept = [json.loads(path.read_text()) for path in sorted((tmp_path / "0").glob("*.json"))]
    assert kept == [{"a": {"square": 1}, "b": {"square": 4}}]


def test_a_kill_loses_no_more_than_what_was_not_yet_flushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resuming, "FLUSH", -1.0)
    names: list[list[str]] = []

    def looking(item: int, jobs: list[int]) -> list[Record]:
        names.append(sorted(path.name.partition("-")[0] for path in tmp_path.glob("0/*")))
        return squares(item, jobs)

    resumed(ITEMS, [tmp_path / "0"], looking, "items")
    assert names == [[], ["000000"], ["000000", "000001"]]


def test_kept_work_that_was_damaged_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resuming, "FLUSH", -1.0)
    expected = resumed(ITEMS, [tmp_path / "0"], squares, "items")
    whole = sorted((tmp_path / "0").glob("*.json"))
    flipped = whole[0].read_bytes().replace(b"1", b"3")
    for damaged in (flipped, whole[0].read_bytes()[:5], b"", b"\xff\xff"):
        whole[0].write_bytes(damaged)
        assert resumed(ITEMS, [tmp_path / "0"], squares, "items") == expected


def test_null_and_numbers_come_back_to_the_last_bit(tmp_path: Path) -> None:
    record = {"f": 0.1 + 0.2, "none": math.nan, "scores": [1e-300, -0.0], "words": ["Größe"]}
    resumed({"a": 1}, [tmp_path / "0"], lambda item, jobs: [record], "items")

    def never(item: int, jobs: list[int]) -> list[Record]:
        raise AssertionError

    ((found,),) = resumed({"a": 1}, [tmp_path / "0"], never, "items")
    assert math.isnan(found.pop("none"))
    assert found == {key: value for key, value in record.items() if key != "none"}
    assert math.copysign(1, found["scores"][1]) == -1
