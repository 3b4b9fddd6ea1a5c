"""Addresses that do not give their image are named with the reason; a server on loopback answers."""

import hashlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from threading import Barrier, BrokenBarrierError, Thread
from time import sleep

import httpx
import pandas as pd
import pytest
from PIL import Image

from pipeline.errors import AssayError
from pipeline.study.frozen import FrozenStudy
from pipeline.study.hosting_check import Unreachable, check_urls
from pipeline.study.settings import StudySettings, write_settings

STREAM = BytesIO()
Image.new("RGB", (4, 3), (255, 0, 0)).save(STREAM, "PNG")
PICTURE = STREAM.getvalue()
TOGETHER = Barrier(4)


class Host(BaseHTTPRequestHandler):
    """Answers as the path says: `/<behaviour>/<anything>`."""

    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        behaviour = self.path.split("/")[1]
        if behaviour in ("nohead403", "nohead405", "nohead501", "whole", "rangeless"):
            return self.answer(int(behaviour[-3:]) if behaviour.startswith("nohead") else 405, {}, b"")
        if behaviour == "emptyhead":
            return self.answer(200, {"Content-Type": "image/png"}, b"")
        return self.respond(behaviour)

    def do_GET(self) -> None:
        behaviour = self.path.split("/")[1]
        if behaviour == "rangeless":
            return self.answer(206, {"Content-Type": "image/png"}, PICTURE[:1])
        if behaviour == "whole" or self.headers["Range"] != "bytes=0-0":
            return self.answer(200, {"Content-Type": "image/png"}, PICTURE)
        content_range = {"Content-Range": f"bytes 0-0/{len(PICTURE)}", "Content-Type": "image/png"}
        return self.answer(206, content_range, PICTURE[:1])

    def respond(self, behaviour: str) -> None:
        if behaviour == "moved":
            return self.answer(302, {"Location": "/good/there"}, b"")
        if behaviour == "circle":
            return self.answer(302, {"Location": "/circle/again"}, b"")
        if behaviour == "slow":
            sleep(1)
        if behaviour == "together":
            try:
                TOGETHER.wait(5)
            except BrokenBarrierError:
                return self.answer(500, {}, b"")
        if behaviour.startswith("status"):
            return self.answer(int(behaviour[-3:]), {"Content-Type": "image/png"}, b"gone")
        kinds = {"page": "text/html; charset=utf-8", "untyped": "", "loud": "IMAGE/PNG"}
        kind = kinds.get(behaviour, "image/png")
        body = PICTURE[:-1] if behaviour == "cut" else PICTURE
        return self.answer(200, {"Content-Type": kind} if kind else {}, body)

    def answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Stay silent."""


@pytest.fixture(scope="module")
def host() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Host)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with httpx.Client(trust_env=False) as own:
        yield own


def study(folder: Path, urls: list[str]) -> FrozenStudy:
    (folder / "images").mkdir()
    (folder / "images" / "a.png").write_bytes(PICTURE)
    checksum = hashlib.sha256(PICTURE).hexdigest()
    fixed = {"checksum": checksum, "file": "a.png", "synset": "", "source": "result", "path": "a.png"}
    rows = [{"image_id": f"image {i}", "url": url, **fixed} for i, url in enumerate(urls)]
    pd.DataFrame(rows).assign(member="", root="").to_csv(folder / "images.csv", index=False)
    write_settings(folder / "settings.json", StudySettings(image_base_url="http://127.0.0.1/{file}"))
    return FrozenStudy(folder)


@pytest.mark.parametrize(
    "good",
    ["good", "moved", "loud", "nohead403", "nohead405", "nohead501", "whole", "rangeless", "emptyhead"],
)
def test_an_address_that_gives_its_image_is_not_named(
    good: str, host: str, client: httpx.Client, tmp_path: Path
):
    assert check_urls(study(tmp_path, [f"{host}/{good}/a.png"]), client=client) == []


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("status404", "status 404 Not Found"),
        ("status500", "status 500 Internal Server Error"),
        ("status204", "status 204 No Content"),
        ("page", "content type text/html; charset=utf-8, expected an image"),
        ("untyped", "content type none, expected an image"),
        ("cut", f"content length {len(PICTURE) - 1}, expected {len(PICTURE)}: not the study's image"),
    ],
)
def test_an_address_without_its_image_is_named_with_the_reason(
    bad: str, reason: str, host: str, client: httpx.Client, tmp_path: Path
):
    url = f"{host}/{bad}/a.png"
    found = check_urls(study(tmp_path, [f"{host}/good/1", url, f"{host}/good/2"]), client=client)
    assert found == [Unreachable(url, "image 1", reason)]


def test_silence_endless_redirects_and_dead_hosts_are_reasons(
    host: str, client: httpx.Client, tmp_path: Path
):
    urls = [f"{host}/slow/a.png", f"{host}/circle/a.png", "http://127.0.0.1:1/a.png", "http://[broken/a.png"]
    found = check_urls(study(tmp_path, urls), client=client, timeout=0.3)
    assert [one.url for one in found] == urls
    assert found[0].reason == "no answer in 0.3 s"
    assert all(one.reason.startswith("no answer: ") for one in found[1:])


def test_requests_run_in_parallel_and_equal_addresses_are_asked_once(
    host: str, client: httpx.Client, tmp_path: Path
):
    urls = [f"{host}/together/{i % 4}" for i in range(8)]
    assert check_urls(study(tmp_path, urls), client=client, at_once=4) == []


def test_an_image_that_is_not_here_is_checked_but_for_its_length(
    host: str, client: httpx.Client, tmp_path: Path
):
    pilot = study(tmp_path, [f"{host}/cut/a.png", f"{host}/status404/a.png"])
    (tmp_path / "images" / "a.png").unlink()
    assert [one.image_id for one in check_urls(pilot, client=client)] == ["image 1"]


def test_a_study_without_addresses_is_told_how_to_get_them(client: httpx.Client, tmp_path: Path):
    with pytest.raises(AssayError, match=r"has no address: assay host --study .* --base-url"):
        check_urls(study(tmp_path, [""]), client=client)
