"""Asks an OpenAI-compatible endpoint for chat completions, again where that can help."""

import json
import threading
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import httpx
import tenacity

from pipeline.errors import AssayError
from pipeline.llm.answer import filtered, read_answer
from pipeline.llm.cost import Meter
from pipeline.llm.endpoint import Endpoint

CONNECT_TIMEOUT = 10.0
LONGEST_PAUSE = 60.0
LONGEST_WAIT = 300.0
"""Seconds: an endpoint that asks for a longer wait than this is not waited for."""
SHOWN = 500
"""Characters of a server's message that are shown."""
AGAIN = {408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529}
FILTERS = {"content_filter", "content_policy_violation", "moderation_blocked"}
"""Codes of a 400 that turn away this question and no other."""
NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "HTTP_REQUEST")
"""OpenSSL's words for an answer that is no TLS, as a server of plain http gives it."""
NO_MONEY = {"insufficient_quota", "billing_hard_limit_reached"}


class _TryAgain(Exception):  # noqa: N818
    """A failure that may pass; `wait` is how many seconds the server asks for."""

    def __init__(self, message: str, wait: float | None = None) -> None:
        super().__init__(message)
        self.wait = wait


class Client:
    """Sends requests, several threads at once; `stop` ends every pause and any further attempt."""

    def __init__(
        self,
        endpoint: Endpoint,
        model: str,
        meter: Meter,
        *,
        timeout: float,
        max_retries: int,
        first_pause: float = 1.0,
    ) -> None:
        self._endpoint = endpoint
        self._model = model
        self._meter = meter
        self._max_retries = max_retries
        self._backoff = tenacity.wait_exponential(first_pause, LONGEST_PAUSE) + tenacity.wait_random(
            0, first_pause
        )
        self._http = httpx.Client(
            headers={"Authorization": f"Bearer {endpoint.key}"} if endpoint.key else {},
            limits=httpx.Limits(max_connections=None),
            timeout=httpx.Timeout(timeout, connect=min(timeout, CONNECT_TIMEOUT)),
        )
        self.stop = threading.Event()

    def complete(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the chat completion of a request, which is sent again after a failure that may pass.

        Raises AssayError, naming endpoint, model, status and the server's message (never the key), where
        `max_retries` repeats did not help, where a repeat cannot help, and where the money is spent.
        """
        attempts = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(_TryAgain),
            stop=tenacity.stop_after_attempt(self._max_retries + 1) | tenacity.stop_when_event_set(self.stop),
            wait=self._pause,
            sleep=tenacity.sleep_using_event(self.stop),
            reraise=True,
        )
        try:
            return attempts(self._once, body)
        except _TryAgain as error:
            tries = "" if self._max_retries == 0 else f" ({self._max_retries + 1} attempts)"
            raise AssayError(f"{error}{tries}") from None

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _pause(self, state: tenacity.RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        asked = error.wait if isinstance(error, _TryAgain) and error.wait else 0.0
        return max(asked, self._backoff(state))

    def _once(self, body: dict[str, Any]) -> dict[str, Any]:
        if self.stop.is_set():
            raise AssayError("another request failed")
        self._meter.reserve()
        try:
            response = self._http.post(self._endpoint.url, json=body)
            text = self._endpoint.without_key(response.text)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError) as error:
            self._meter.refused()
            if any(word in _reason(error) for word in NO_TLS):
                raise AssayError(
                    f"{self._who} does not speak TLS ({_reason(error)}): use http:// in explainer.base_url"
                ) from None
            raise _TryAgain(
                f"{self._who} cannot be reached ({_reason(error)}): start the server, or set "
                "explainer.base_url"
            ) from None
        except httpx.RequestError as error:
            self._meter.lost()
            raise _TryAgain(
                f"{self._who} gave no whole answer ({_reason(error)}): raise explainer.timeout"
            ) from None
        if response.status_code != httpx.codes.OK:
            self._meter.refused()
            return self._turned_down(response, text)
        return self._read(text)

    def _read(self, text: str) -> dict[str, Any]:
        try:
            raw: dict[str, Any] = json.loads(text, parse_constant=lambda name: None)
            answer = read_answer(raw)
        except ValueError as error:
            self._meter.lost()
            raise AssayError(
                f"{self._who} answers HTTP 200 with no chat completion ({error}): {_short(text)}. Does "
                "explainer.base_url end where the server's API begins (often /v1)?"
            ) from None
        self._meter.answered(answer)
        return raw

    def _turned_down(self, response: httpx.Response, text: str) -> dict[str, Any]:
        status, (code, message) = response.status_code, _server_message(text)
        if code in FILTERS:
            return filtered(self._model, message)
        said = f"{self._who} answers HTTP {status}: {_short(message) or '(no message)'}"
        if status not in AGAIN or code in NO_MONEY:
            raise AssayError(f"{said}. {self._fix(status, code)}")
        wait = _retry_after(response.headers.get("Retry-After", ""))
        if wait is not None and wait > LONGEST_WAIT:
            raise AssayError(f"{said}. It asks to wait {wait:.0f} s: run the same command again then")
        raise _TryAgain(said, wait)

    def _fix(self, status: int, code: str) -> str:
        name = self._endpoint.key_name or "OPENAI_API_KEY"
        if code in NO_MONEY or status == 402:
            return "The account behind the key has no money left"
        if status in (401, 403):
            if self._endpoint.key:
                return f"Check the key in the environment's {name}, and that it may use this model"
            return f"No key was sent: set {name}, or explainer.api_key_env to the variable that holds one"
        if 300 <= status < 400:
            return "The address moved: set explainer.base_url to the new one"
        return FIXES.get(status, FIXES[400])

    @property
    def _who(self) -> str:
        return f"{self._endpoint.url} (model {self._model})"


FIXES = {
    400: "Check explainer.model and whether it takes images; some models want "
    "explainer.token_limit=max_completion_tokens, explainer.temperature=null or explainer.seed=null",
    404: "Check explainer.model, and that explainer.base_url ends where the server's API begins (often /v1)",
    413: "The sheet is too large: lower explainer.cell, explainer.n_top or explainer.n_random",
}


def _server_message(text: str) -> tuple[str, str]:
    """Return code and message of an error's body: OpenAI's form, or what other servers send."""
    try:
        body = json.loads(text)
    except ValueError:
        return "", text
    error = body.get("error", body) if isinstance(body, dict) else body
    if not isinstance(error, dict):
        return "", str(error)
    message = error.get("message") or error.get("detail") or error
    return str(error.get("code") or ""), str(message)


def _short(text: str) -> str:
    line = " ".join(text.split()).rstrip(".")
    return line if len(line) <= SHOWN else line[:SHOWN] + "..."


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__


def _retry_after(value: str) -> float | None:
    """Return the seconds of a Retry-After header, given in seconds or as a date; None where unreadable."""
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        date = parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0.0, (date.replace(tzinfo=date.tzinfo or UTC) - datetime.now(UTC)).total_seconds())
