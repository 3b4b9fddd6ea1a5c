import builtins

import pytest

from pipeline.errors import AssayError
from pipeline.mturk.client import connect, explained, place_of


def test_a_client_goes_to_the_sandbox_unless_told_otherwise(client, turk):
    client.get_account_balance()
    assert turk.urls == {"https://mturk-requester-sandbox.us-east-1.amazonaws.com"}
    assert place_of(client) == "sandbox"


def test_a_live_client_goes_to_mturk_itself(turk):
    client = turk.attach(connect(live=True))
    client.get_account_balance()
    assert turk.urls == {"https://mturk-requester.us-east-1.amazonaws.com"}
    assert place_of(client) == "production"


def test_an_endpoint_in_the_environment_does_not_move_the_sandbox(monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://mturk-requester.us-east-1.amazonaws.com")
    monkeypatch.setenv("AWS_ENDPOINT_URL_MTURK", "https://mturk-requester.us-east-1.amazonaws.com")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    client = connect(live=False)
    assert client.meta.endpoint_url == "https://mturk-requester-sandbox.us-east-1.amazonaws.com"
    assert client.meta.region_name == "us-east-1"


def test_missing_credentials_say_where_to_put_them(monkeypatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(AssayError, match=r"AWS_ACCESS_KEY_ID.*aws configure"):
        connect(live=False)


def test_a_profile_that_is_not_there_is_a_message(monkeypatch):
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(AssayError, match="nobody"):
        connect(live=False)


def test_without_boto3_the_extra_is_named(monkeypatch):
    real = builtins.__import__

    def without_boto3(name, *rest, **options):
        if name == "boto3":
            raise ImportError(name)
        return real(name, *rest, **options)

    monkeypatch.setattr(builtins, "__import__", without_boto3)
    with pytest.raises(AssayError, match=r"assay\[crowd\]"):
        connect(live=False)


def test_throttling_once_is_retried(client, turk, throttled, fault):
    turk.fail_once("GetAccountBalance", throttled)
    turk.fail_once("GetAccountBalance", fault)
    assert client.get_account_balance()["AvailableBalance"] == "10000.00"
    assert turk.calls["GetAccountBalance"] == 3


def test_what_aws_refuses_is_explained_with_the_fix(client, turk):
    refusal = (400, "UnrecognizedClientException", None, "The security token is invalid")
    with (
        turk.failure("GetAccountBalance", refusal),
        pytest.raises(AssayError, match=r"asking.*security token is invalid.*access key"),
        explained("asking"),
    ):
        client.get_account_balance()


def test_a_request_that_the_model_forbids_keeps_its_traceback(client):
    from botocore.exceptions import ParamValidationError

    with pytest.raises(ParamValidationError), explained("asking"):
        client.get_hit(Hit="x")
