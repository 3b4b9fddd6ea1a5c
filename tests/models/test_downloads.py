"""Which errors come of a download: the hub's client speaks through several libraries."""

import httpx
import pytest

from pipeline.models.downloads import is_of_network


@pytest.mark.parametrize(
    "error",
    [
        httpx.RemoteProtocolError("peer closed connection"),
        httpx.ConnectTimeout("late"),
        ConnectionResetError("reset"),
        FileNotFoundError("not in the cache, and offline"),
    ],
)
def test_a_broken_connection_is_one(error: Exception) -> None:
    assert is_of_network(error)


@pytest.mark.parametrize("error", [KeyError("name"), RuntimeError("size mismatch"), ZeroDivisionError()])
def test_a_defect_is_none(error: Exception) -> None:
    assert not is_of_network(error)
