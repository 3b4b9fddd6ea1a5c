"""Errors of a disk: who is told what, whichever library met them."""

import errno
from pathlib import Path

import pytest

from pipeline.disk_errors import disk_trouble, little_room

PLACE = Path("results/units")


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.EDQUOT, "Disk quota exceeded"),
        OSError("1000 requested and 496 written"),  # numpy.save
        RuntimeError('IoError(Os { code: 28, message: "No space left on device" })'),  # safetensors
    ],
)
def test_a_full_disk_is_named_with_what_to_do(error: Exception) -> None:
    told = disk_trouble(error, PLACE)
    assert told is not None
    assert "the disk of results/units is full" in told
    assert "free some space there, then the same command goes on" in told


def test_an_error_that_names_a_file_is_told_with_it() -> None:
    told = disk_trouble(OSError(errno.EROFS, "Read-only file system", "studies/a"), PLACE)
    assert told is not None
    assert told.startswith("studies/a cannot be written (Read-only file system)")
    assert "give yourself the right to write there" in told


def test_files_of_one_place_are_told_once() -> None:
    told = {disk_trouble(OSError(errno.EROFS, "no", f"results/units/.k{n}"), PLACE) for n in range(3)}
    assert len(told) == 1
    assert "results/units cannot be written" in str(told)


def test_the_cause_of_an_error_counts() -> None:
    try:
        try:
            raise OSError(errno.ENOSPC, "No space left on device")
        except OSError as error:
            raise ValueError("cannot write the table") from error
    except ValueError as error:
        assert "is full" in str(disk_trouble(error, PLACE))


@pytest.mark.parametrize("error", [FileNotFoundError(errno.ENOENT, "none", "a"), ValueError("no space")])
def test_another_error_is_none_of_the_disks(error: Exception) -> None:
    assert disk_trouble(error, PLACE) is None


def test_a_disk_with_room_is_not_complained_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.disk_errors.LITTLE", 0)
    assert little_room(tmp_path) is None
    monkeypatch.setattr("pipeline.disk_errors.LITTLE", 1e18)
    assert "free some space there" in str(little_room(tmp_path))
