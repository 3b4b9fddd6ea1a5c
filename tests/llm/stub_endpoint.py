"""A server on this computer that speaks the protocol of chat completions and checks what it is sent."""

import base64
import io
import json
import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from PIL import Image

PATH = "/v1/chat/completions"


class Reply:
    """A scripted reply, given once instead of an answer."""

    def __init__(
        self,
        status: int = 200,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        after: float = 0.0,
    ) -> None:
        self.status = status
        self.body = body
        self.headers = headers or {}
        self.after = after


def error(message: str, code: str | None = None) -> dict[str, Any]:
    """An error as OpenAI words it."""
    return {"error": {"message": message, "type": "some_error", "param": None, "code": code}}


class StubEndpoint:
    """`requests`: what came, each body with `png` (an image) and `authorization`.

    `script`: replies to give first. `answer`: from a request to the text of its completion.
    """

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.script: list[Reply] = []
        self.answer: Callable[[dict[str, Any]], str] = lambda request: "red circles"
        self.usage: dict[str, int] | None = {"prompt_tokens": 500, "completion_tokens": 4}
        self.at_once = 0
        self.most_at_once = 0
        self.lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        self.base_url = f"http://127.0.0.1:{self._server.server_port}/v1"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def reply(self, path: str, headers: Mapping[str, str], data: bytes) -> Reply:
        try:
            request = checked(path, headers, data)
        except (AssertionError, KeyError, ValueError) as fault:
            return Reply(400, error(f"the stub does not take this: {fault!r}"))
        with self.lock:
            self.requests.append(request | {"authorization": headers.get("Authorization")})
            scripted = self.script.pop(0) if self.script else None
        if scripted is not None and (scripted.status != 200 or scripted.body is not None):
            return scripted
        completion: dict[str, Any] = {
            "id": f"chatcmpl-{len(self.requests)}",
            "object": "chat.completion",
            "created": 1700000000,
            "model": request["model"] + "-2024",
            "system_fingerprint": "fp_1",
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": self.answer(request)},
                    "finish_reason": "stop",
                }
            ],
        }
        if self.usage is not None:
            completion["usage"] = self.usage
        return Reply(200, completion, after=scripted.after if scripted else 0.0)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        stub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                with stub.lock:
                    stub.at_once += 1
                    stub.most_at_once = max(stub.most_at_once, stub.at_once)
                data = self.rfile.read(int(self.headers["Content-Length"]))
                reply = stub.reply(self.path, self.headers, data)
                time.sleep(reply.after)
                body = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
                with stub.lock:
                    stub.at_once -= 1
                try:
                    self.send_response(reply.status)
                    for name, value in {"Content-Type": "application/json", **reply.headers}.items():
                        self.send_header(name, value)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True

            def log_message(self, *arguments: Any) -> None:
                pass

        return Handler


def checked(path: str, headers: Mapping[str, str], data: bytes) -> dict[str, Any]:
    """Read a request as a server does that knows the protocol."""
    assert path == PATH
    assert headers["Content-Type"] == "application/json"
    body: dict[str, Any] = json.loads(data)
    known = {"model", "messages", "max_tokens", "max_completion_tokens", "temperature", "seed"}
    assert body.keys() <= known, body.keys() - known
    (message,) = body["messages"]
    assert message.keys() == {"role", "content"}
    assert message["role"] == "user"
    text, image = message["content"]
    assert text["type"] == "text"
    assert image["type"] == "image_url"
    kind, _, encoded = image["image_url"]["url"].partition(",")
    assert kind == "data:image/png;base64"
    picture = Image.open(io.BytesIO(base64.b64decode(encoded, validate=True)))
    assert picture.format == "PNG"
    picture.load()
    return body | {"text": text["text"], "image_url": image["image_url"], "png": picture}
