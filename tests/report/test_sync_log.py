"""The log of an offline run: read whole, and written again without the rows that a server has."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from pipeline.errors import AssayError
from pipeline.report.tracking import PointRecord, SweepRecord, log_sweep
from pipeline.report.wandb_log import BLOCK, HEADER, _framed, _parsed, _records, leave_out_lines, read_log

POINT = PointRecord(
    "k000000000000",
    "a point",
    {"layer": "l1"},
    {"scores": pd.DataFrame({"unit": [0, 1]})},
    {"mean": 0.5},
    ("a",),
    history=pd.DataFrame({"epoch": range(3), "loss": [3.0, 2.0, 1.0]}),
)
LONG = replace(POINT, key="k000000000001", config={"text": "x" * 3 * BLOCK})


def logs(folder: Path, *points: PointRecord) -> list[Path]:
    runs = log_sweep(points, SweepRecord("demo", "kc", {}, {}), project="assay-tests", directory=folder)
    return [run.directory / f"run-{run.id}.wandb" for run in runs]


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return logs(tmp_path_factory.mktemp("log"), POINT, LONG)


def history(path: Path) -> list[int]:
    """Return the steps of the rows."""
    kinds = [_parsed(data) for data in _records(path)]
    return [record.history.step.num for record in kinds if record.WhichOneof("record_type") == "history"]


def test_framing_is_what_wandb_writes_byte_by_byte(logged: list[Path]) -> None:
    for path in logged[:2]:
        data = path.read_bytes()
        assert data[HEADER:] == _framed(_records(path))
    assert len(data) > 3 * BLOCK


@pytest.mark.parametrize("short", range(16))
def test_records_that_end_near_a_blocks_end_are_read_as_written(tmp_path: Path, short: int) -> None:
    records = [b"a" * (BLOCK - HEADER - short), b"", b"b" * (2 * BLOCK), b"c"]
    path = tmp_path / "run.wandb"
    path.write_bytes(b":W&B\xe1\xbe\x00" + _framed(records))
    assert list(_records(path)) == records


def test_rows_that_are_there_are_left_out_and_all_else_is_kept(logged: list[Path], tmp_path: Path) -> None:
    path = tmp_path / "run.wandb"
    assert history(logged[1]) == [0, 1, 2, 3]
    for n, left in ((0, [0, 1, 2, 3]), (1, [1, 2, 3]), (4, []), (9, [])):
        path.write_bytes(logged[1].read_bytes())
        leave_out_lines(path, n)
        assert history(path) == left
        others = len(list(_records(logged[1]))) - 4
        assert len(list(_records(path))) == others + len(left)
    assert read_log(path).lines == 0


def test_a_point_that_is_logged_twice_says_the_same(logged: list[Path], tmp_path: Path) -> None:
    changes = {
        "config": {"layer": "l2"},
        "name": "another",
        "tags": ("b",),
        "summary": {"mean": 0.25},
        "history": pd.DataFrame({"epoch": range(3), "loss": [3.0, 2.0, 0.5]}),
        "tables": {"scores": pd.DataFrame({"unit": [0, 2]})},
    }
    first = read_log(logged[0])
    assert (first.lines, first.project, first.entity) == (4, "assay-tests", None)
    same = replace(POINT, key="k000000000000")
    assert read_log(logs(tmp_path / "same", same)[0]) == first
    digests = {
        read_log(logs(tmp_path / name, replace(POINT, **{name: value}))[0]).digest
        for name, value in changes.items()
    }
    assert len({first.digest, *digests}) == len(changes) + 1


def test_what_is_no_log_is_named(tmp_path: Path) -> None:
    path = tmp_path / "run.wandb"
    for content in (b"", b"PK\x03\x04", b":W&B\xe1\xbe\x00"):
        path.write_bytes(content)
        with pytest.raises(AssayError, match=r"run\.wandb .*run the sweep again"):
            read_log(path)
