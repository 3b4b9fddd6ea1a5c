"""A command that is stopped, or meets a disk that it cannot write, says so in one line."""

import errno

import pytest
from click.testing import CliRunner

from pipeline.cli import Assay


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (KeyboardInterrupt(), 130, "assay: stopped; the same command goes on from here"),
        (OSError(errno.ENOSPC, "No space left on device"), 2, "free some space there"),
        (PermissionError(errno.EACCES, "Permission denied", "results/x"), 2, "results/x cannot be written"),
    ],
)
def test_it_ends_with_a_line_and_a_code(error: BaseException, code: int, words: str) -> None:
    group = Assay("assay")

    @group.command()
    def work() -> None:
        raise error

    done = CliRunner().invoke(group, ["work"])
    assert done.exit_code == code
    assert words in done.output
    assert "Traceback" not in done.output


def test_another_error_keeps_its_traceback() -> None:
    group = Assay("assay")

    @group.command()
    def work() -> None:
        raise FileNotFoundError(errno.ENOENT, "none", "results/x")

    assert isinstance(CliRunner().invoke(group, ["work"]).exception, FileNotFoundError)
