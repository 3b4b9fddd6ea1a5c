"""A stand-in for the Hugging Face hub on loopback, whose connections break when they are told to."""

import hashlib
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

FILE = re.compile(r"^/([^/]+/[^/]+)/resolve/([0-9a-f]{40})/(.+)$")


@dataclass
class Hub:
    """Files by repository and name; `breaks_at` bytes every connection breaks, None: never.

    Once one has broken the hub is gone, as after a lost network, until `breaks_at` is set again.
    """

    files: Mapping[tuple[str, str], bytes]
    breaks_at: int | None = None
    is_gone: bool = False
    requests: list[str] = field(default_factory=list)
    port: int = 0

    @property
    def address(self) -> str:
        """What HF_ENDPOINT names."""
        return f"http://127.0.0.1:{self.port}"

    def comes_back(self) -> None:
        """Serve everything whole from now on."""
        self.breaks_at, self.is_gone = None, False


@contextmanager
def serving(hub: Hub) -> Iterator[Hub]:
    """Serve a hub on a free port of the loopback."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            _answer(self, hub, body=False)

        def do_GET(self) -> None:
            _answer(self, hub, body=True)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.port = server.server_address[1]
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()


def _answer(request: BaseHTTPRequestHandler, hub: Hub, body: bool) -> None:
    hub.requests.append(f"{request.command} {request.path} {request.headers.get('Range', '')}".strip())
    if hub.is_gone:
        request.close_connection = True
        request.connection.close()
        return
    found = FILE.match(request.path)
    content = hub.files.get((found[1], found[3])) if found else None
    if found is None or content is None:
        _refuse(request)
        return
    start = int((request.headers.get("Range") or "bytes=0-").split("=")[1].split("-")[0])
    _head(request, content, start, found[2])
    if body:
        _send(request, hub, content[start:])


def _refuse(request: BaseHTTPRequestHandler) -> None:
    request.send_response(404)
    request.send_header("X-Error-Code", "EntryNotFound")
    request.send_header("Content-Length", "0")
    request.end_headers()


def _head(request: BaseHTTPRequestHandler, content: bytes, start: int, revision: str) -> None:
    request.send_response(206 if start else 200)
    request.send_header("X-Repo-Commit", revision)
    request.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
    request.send_header("Accept-Ranges", "bytes")
    request.send_header("Content-Length", str(len(content) - start))
    if start:
        request.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
    request.end_headers()


def _send(request: BaseHTTPRequestHandler, hub: Hub, rest: bytes) -> None:
    if hub.breaks_at is None or len(rest) <= hub.breaks_at:
        request.wfile.write(rest)
        return
    request.wfile.write(rest[: hub.breaks_at])
    request.wfile.flush()
    hub.is_gone = True
    request.close_connection = True
    request.connection.close()
