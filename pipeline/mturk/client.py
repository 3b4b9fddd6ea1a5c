"""The connection to MTurk: the sandbox unless told otherwise."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from pipeline.errors import AssayError

REGION = "us-east-1"
ENDPOINTS = {
    "sandbox": "https://mturk-requester-sandbox.us-east-1.amazonaws.com",
    "production": "https://mturk-requester.us-east-1.amazonaws.com",
}
ATTEMPTS = 8
PAGE_SIZE = 100
HINTS = {
    "AccessDeniedException": "give the AWS user the policy AmazonMechanicalTurkFullAccess",
    "ExpiredTokenException": "log in again: the credentials have run out",
    "InvalidSignatureException": "check the secret access key, and this computer's clock",
    "ThrottlingException": "wait a minute",
    "UnrecognizedClientException": "check the access key: AWS does not know it",
}


class MTurk(Protocol):
    """What we call of boto3's MTurk client."""

    meta: Any

    def create_hit(self, **request: Any) -> dict[str, Any]:
        """Create a HIT."""

    def get_hit(self, **request: Any) -> dict[str, Any]:
        """Return a HIT."""

    def get_assignment(self, **request: Any) -> dict[str, Any]:
        """Return an assignment and its HIT."""

    def get_account_balance(self) -> dict[str, Any]:
        """Return what the account can spend."""

    def update_expiration_for_hit(self, **request: Any) -> dict[str, Any]:
        """Set when a HIT closes."""

    def approve_assignment(self, **request: Any) -> dict[str, Any]:
        """Approve and pay."""

    def reject_assignment(self, **request: Any) -> dict[str, Any]:
        """Reject, with a reason that the worker reads."""

    def get_paginator(self, operation: str) -> Any:
        """Return a paginator."""


def connect(live: bool) -> MTurk:
    """Return a client of MTurk's sandbox, or of MTurk itself where `live`.

    Its credentials come from where AWS's own tools look. Raises AssayError where boto3 is not
    installed, and where there are no credentials.
    """
    try:
        import boto3
        from botocore.config import Config
    except ImportError:
        raise AssayError('MTurk needs boto3: pip install "assay[crowd]"') from None
    with explained("connecting to MTurk"):
        session = boto3.Session()
        if session.get_credentials() is None:
            raise AssayError(
                "no AWS credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run "
                "`aws configure`; the AWS account must be linked at https://requester.mturk.com/developer"
                f"{'' if live else ' (for the sandbox: https://requestersandbox.mturk.com/developer)'}"
            )
        config = Config(
            region_name=REGION,
            retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
            connect_timeout=10,
            read_timeout=60,
        )
        # The address is always given: an AWS_ENDPOINT_URL in the environment must not make it another.
        client: MTurk = session.client("mturk", endpoint_url=ENDPOINTS[place_name(live)], config=config)
        return client


def place_name(live: bool) -> str:
    """Return `production` or `sandbox`."""
    return "production" if live else "sandbox"


def place_of(client: MTurk) -> str:
    """Return `sandbox` or `production`, by where the client's calls go."""
    return next(place for place, url in ENDPOINTS.items() if client.meta.endpoint_url.rstrip("/") == url)


def turk_code(error: Any) -> str:
    """Return MTurk's own code of a ClientError, such as `HITAlreadyExists`, or AWS's where it has none."""
    response: Mapping[str, Any] = error.response
    code: str = response.get("TurkErrorCode") or response.get("Error", {}).get("Code", "")
    return code.rsplit(".", 1)[-1]


def turk_message(error: Any) -> str:
    """Return what a ClientError says in words."""
    message: str = error.response.get("Error", {}).get("Message", "")
    return message


@contextmanager
def explained(doing: str) -> Iterator[None]:
    """Turn AWS's refusals and broken connections into an AssayError that says what was being done.

    A request that the service model forbids is a defect of ours, and keeps its traceback.
    """
    from botocore.exceptions import BotoCoreError, ClientError, ParamValidationError

    try:
        yield
    except ParamValidationError:
        raise
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "")
        hint = f"; {HINTS[code]}" if code in HINTS else ""
        raise AssayError(f"{doing}: MTurk says {turk_code(error)}: {turk_message(error)}{hint}") from error
    except BotoCoreError as error:
        raise AssayError(f"{doing}: {error}") from error
