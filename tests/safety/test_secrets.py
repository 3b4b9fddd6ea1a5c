"""Secrets in addresses are refused before anything is told or stored."""

import pytest

from pipeline.errors import AssayError
from pipeline.llm.endpoint import open_endpoint
from pipeline.plan.compose import Composer
from pipeline.report.wandb_sync import server_address


def test_a_wandb_address_with_a_password_is_refused_without_telling_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WANDB_BASE_URL", "https://user:very-secret@wandb.example.org")
    with pytest.raises(AssayError, match="WANDB_BASE_URL holds a user or a password") as caught:
        server_address()
    assert "very-secret" not in str(caught.value)


@pytest.mark.parametrize(
    "address", ["https://user:very-secret@x.example/v1", "https://x.example/v1?key=very-secret"]
)
def test_an_endpoints_address_with_a_secret_is_refused_without_telling_it(address: str) -> None:
    with pytest.raises(AssayError) as caught:
        open_endpoint(address, "", {})
    assert "very-secret" not in str(caught.value)


def test_an_endpoints_key_is_in_no_repr() -> None:
    endpoint = open_endpoint("https://x.example/v1", "KEY", {"KEY": "very-secret"})
    assert "very-secret" not in repr(endpoint)
    assert endpoint.without_key("you sent very-secret") == "you sent [key]"


def test_a_config_takes_no_secret_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    from pathlib import Path

    monkeypatch.setenv("SOME_KEY", "very-secret")
    composer = Composer(Path(__file__).parents[2] / "conf")
    with pytest.raises(AssayError, match=r"oc\.env is for paths only") as caught:
        composer.compose(["tracking.project=${oc.env:SOME_KEY}"])
    assert "very-secret" not in str(caught.value)
