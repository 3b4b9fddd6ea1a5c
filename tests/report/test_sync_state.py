"""What was pushed is kept in a file; a damaged one is named with what to do."""

from pathlib import Path

import pytest

from pipeline.errors import AssayError
from pipeline.sync_command import State


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\xfe", b"7"])
def test_a_damaged_file_is_named_with_what_to_do(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / ".synced.json"
    path.write_bytes(content)
    with pytest.raises(AssayError, match=r"\.synced\.json cannot be read .*: delete it and sync again"):
        State(path).at("server")


def test_what_was_noted_is_there(tmp_path: Path) -> None:
    state = State(tmp_path / ".synced.json")
    state.note("server", {"run": {"digest": "a"}})
    state.note("server", {"other": {"digest": "b"}})
    assert state.at("server") == {"run": {"digest": "a"}, "other": {"digest": "b"}}
    assert state.at("elsewhere") == {}
