"""How far a stage is, as a person reads it."""

from pathlib import Path

import pytest

from pipeline import progress
from pipeline.progress import Progress, duration, read_progress, reported_to, tracked


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.4, "0 s"), (89, "89 s"), (150, "2 min"), (5399, "90 min"), (9000, "2.5 h")]
)
def test_a_duration_is_told_in_its_largest_unit(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_the_time_left_counts_what_this_run_did_and_not_what_was_there_before() -> None:
    assert Progress("samples", 60, 100, at_start=50, seconds=20).words() == (
        "60 of 100 samples, about 80 s left"
    )


def test_before_anything_is_done_no_time_is_told() -> None:
    assert Progress("samples", 50, 100, at_start=50, seconds=3).words() == "50 of 100 samples"


def test_what_is_tracked_comes_through_and_is_written_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "INTERVAL", 0.0)
    place = tmp_path / "stage" / "batch.progress"
    seen = []
    with reported_to(place):
        for item in tracked(["a", "b", "c"], "samples", at_start=2):
            seen.append((item, read_progress(place).done, read_progress(place).total))
    assert seen == [("a", 2, 5), ("b", 3, 5), ("c", 4, 5)]
    assert not place.exists()


def test_outside_of_a_run_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert list(tracked([1, 2], "things")) == [1, 2]
    assert list(tmp_path.iterdir()) == []
