"""The client against a server that speaks the protocol, and one that fails in every way."""

import socket
import threading
import time
import traceback
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from PIL import Image

from pipeline.errors import AssayError
from pipeline.llm.answer import read_answer
from pipeline.llm.client import Client
from pipeline.llm.cost import Meter, Prices
from pipeline.llm.endpoint import Endpoint
from pipeline.llm.grid import draw_sheet
from pipeline.llm.question import Question
from tests.llm.stub_endpoint import Reply, StubEndpoint, error

KEY = "sk-very-secret-0123456789"
QUESTION = Question("vlm", "What is it?", ("a",), ("b",), 16, 20, "max_tokens", 0.0, 7, None)
BODY = QUESTION.body(draw_sheet([Image.new("RGB", (4, 4), "red")], [], 16))


class Opened:
    """Clients of a stub, closed at the end of a test."""

    def __init__(self, stub: StubEndpoint) -> None:
        self.stub = stub
        self.meter = Meter(Prices(1.0, 1.0, 0), each=0.001, max_cost=1.0)
        self.clients: list[Client] = []

    def client(self, key: str = KEY, timeout: float = 5.0, max_retries: int = 3, **other: Any) -> Client:
        endpoint = Endpoint(other.pop("base_url", self.stub.base_url), key, "OPENAI_API_KEY")
        options = {"timeout": timeout, "max_retries": max_retries, "first_pause": 0.01}
        self.clients.append(Client(endpoint, "vlm", self.meter, **options))
        return self.clients[-1]


@pytest.fixture
def opened(stub: StubEndpoint) -> Iterator[Opened]:
    opened = Opened(stub)
    yield opened
    for client in opened.clients:
        client.close()


def failure(client: Client) -> str:
    with pytest.raises(AssayError) as caught:
        client.complete(BODY)
    assert KEY not in "".join(traceback.format_exception(caught.value))
    return str(caught.value)


def test_a_request_is_answered(opened, stub):
    answer = read_answer(opened.client().complete(BODY))
    assert (answer.text, answer.model, answer.finish_reason) == ("red circles", "vlm-2024", "stop")
    assert (answer.prompt_tokens, answer.completion_tokens) == (500, 4)
    assert answer.system_fingerprint == "fp_1"
    (request,) = stub.requests
    assert request["authorization"] == f"Bearer {KEY}"
    assert (request["temperature"], request["seed"], request["max_tokens"]) == (0.0, 7, 20)


def test_without_a_key_no_authorization_is_sent(opened, stub):
    opened.client(key="").complete(BODY)
    assert stub.requests[0]["authorization"] is None


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
def test_a_failure_that_may_pass_is_tried_again(opened, stub, status):
    stub.script = [Reply(status, error("busy")), Reply(status, error("busy"))]
    assert opened.client().complete(BODY)["choices"]
    assert len(stub.requests) == 3
    assert opened.meter.spent == pytest.approx(504e-6)  # what failed is free


def test_retries_end(opened, stub):
    stub.script = [Reply(500, error("broken"))] * 9
    assert failure(opened.client(max_retries=2)) == (
        f"{stub.base_url}/chat/completions (model vlm) answers HTTP 500: broken (3 attempts)"
    )
    assert len(stub.requests) == 3


def test_the_wait_that_a_server_asks_for_is_kept(opened, stub):
    stub.script = [Reply(429, error("slow down"), {"Retry-After": "0.4"})]
    began = time.perf_counter()
    opened.client().complete(BODY)
    assert time.perf_counter() - began >= 0.4


def test_a_date_to_wait_for_is_read(opened, stub):
    later = datetime.now(UTC) + timedelta(seconds=2)
    stub.script = [Reply(503, error("later"), {"Retry-After": format_datetime(later, usegmt=True)})]
    opened.client().complete(BODY)
    assert datetime.now(UTC) >= later.replace(microsecond=0)


def test_an_unreadable_wait_is_no_wait(opened, stub):
    stub.script = [Reply(503, error("later"), {"Retry-After": "soon"})]
    assert opened.client().complete(BODY)["choices"]


def test_nobody_waits_for_an_hour(opened, stub):
    stub.script = [Reply(429, error("daily limit"), {"Retry-After": "3600"})]
    assert "asks to wait 3600 s" in failure(opened.client())
    assert len(stub.requests) == 1


@pytest.mark.parametrize(
    ("status", "fix"),
    [
        (301, "set explainer.base_url"),
        (400, "explainer.token_limit=max_completion_tokens"),
        (401, "Check the key in the environment's OPENAI_API_KEY"),
        (402, "no money"),
        (403, "Check the key in the environment's OPENAI_API_KEY"),
        (404, "Check explainer.model"),
        (413, "lower explainer.cell"),
        (422, "Check explainer.model"),
    ],
)
def test_a_failure_that_stays_is_told_at_once_with_what_to_do(opened, stub, status, fix):
    stub.script = [Reply(status, error(f"not with {KEY}"))]
    message = failure(opened.client())
    assert message.startswith(f"{stub.base_url}/chat/completions (model vlm) answers HTTP {status}: ")
    assert "not with [key]" in message
    assert fix in message
    assert len(stub.requests) == 1


def test_where_no_key_was_sent_a_401_says_how_to_give_one(opened, stub):
    stub.script = [Reply(401, error("who are you"))]
    assert "No key was sent: set OPENAI_API_KEY" in failure(opened.client(key=""))


def test_an_empty_account_is_not_asked_again(opened, stub):
    stub.script = [Reply(429, error("You exceeded your current quota", "insufficient_quota"))]
    assert "no money left" in failure(opened.client())
    assert len(stub.requests) == 1


@pytest.mark.parametrize("body", [b"plain words", {"detail": "plain words"}, {"error": "plain words"}])
def test_other_servers_errors_are_read_too(opened, stub, body):
    stub.script = [Reply(400, body)]
    assert "HTTP 400: plain words. " in failure(opened.client())


def test_a_long_message_is_cut(opened, stub):
    stub.script = [Reply(400, error("x" * 9000))]
    assert len(failure(opened.client())) < 1000


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b'{"choices": [{"mess', ""),
        (b"<html>welcome</html>", "<html>welcome</html>"),
        (b"[1, 2]", "no list `choices`"),
        ({"choices": []}, "no list `choices`"),
        ({"choices": [{"text": "old api"}]}, "no `message`"),
        ({"choices": [{"message": {"content": 3}}]}, "neither a text nor a list"),
    ],
)
def test_what_is_no_chat_completion_is_told_and_not_paid_twice(opened, stub, body, why):
    stub.script = [Reply(200, body)]
    message = failure(opened.client())
    assert "answers HTTP 200 with no chat completion" in message and "explainer.base_url" in message
    assert why in message
    assert len(stub.requests) == 1
    assert opened.meter.spent == 0.001  # it may have been billed


def test_a_slow_answer_is_a_timeout_that_counts_as_paid(opened, stub):
    stub.script = [Reply(after=0.6), Reply(after=0.6)]
    message = failure(opened.client(timeout=0.15, max_retries=1))
    assert "gave no whole answer" in message and "explainer.timeout" in message
    assert opened.meter.spent == pytest.approx(0.002)


def test_a_server_that_is_not_there_costs_nothing(opened, stub):
    stub.close()
    message = failure(opened.client(max_retries=1))
    assert "cannot be reached" in message and "start the server" in message
    assert opened.meter.spent == 0


def test_https_to_a_server_of_plain_http_says_so_at_once(opened):
    connections = []

    def serve(server: socket.socket) -> None:
        while True:
            connection, _ = server.accept()
            with connection:
                connections.append(connection.recv(65536))
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, args=(server,), daemon=True).start()
        message = failure(opened.client(base_url=f"https://127.0.0.1:{server.getsockname()[1]}/v1"))
    assert "does not speak TLS" in message and message.endswith("use http:// in explainer.base_url")
    assert (len(connections), opened.meter.spent) == (1, 0)


def test_a_question_that_the_filter_turns_away_is_an_answer(opened, stub):
    stub.script = [Reply(400, error("The image is not allowed", "content_policy_violation"))]
    answer = read_answer(opened.client().complete(BODY))
    assert (answer.text, answer.refusal) == ("", "The image is not allowed")
    assert answer.finish_reason == "content_filter"


def test_a_key_that_a_server_repeats_in_an_answer_is_blacked_out(opened, stub):
    stub.answer = lambda request: f"your key is {KEY}"
    assert read_answer(opened.client().complete(BODY)).text == "your key is [key]"


def test_stopping_ends_a_pause_and_sends_nothing_more(opened, stub):
    stub.script = [Reply(429, error("wait"), {"Retry-After": "200"})] * 3
    client = opened.client()
    threading.Timer(0.2, client.stop.set).start()
    began = time.perf_counter()
    failure(client)
    assert time.perf_counter() - began < 5
    assert len(stub.requests) == 1


def test_the_meter_stops_retries_too(opened, stub):
    opened.meter = Meter(Prices(1.0, 1.0, 0), each=0.6, max_cost=1.0)
    stub.script = [Reply(after=0.4)] * 2
    assert "explainer.max_cost=1 is reached" in failure(opened.client(timeout=0.1))
    assert len(stub.requests) == 1


def test_the_key_is_not_in_the_endpoints_own_words():
    assert KEY not in repr(Endpoint("http://localhost/v1", KEY))
