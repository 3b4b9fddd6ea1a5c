"""Ask every image address of a study whether it answers with that image."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import httpx
from tqdm import tqdm

from pipeline.errors import AssayError
from pipeline.study.frozen import FrozenStudy

ANSWERED = (200, 206)
HEAD_REFUSED = (403, 405, 501)
HEADERS = {"Accept-Encoding": "identity", "User-Agent": "assay host --check"}
WHOLE_LENGTH = re.compile(r"bytes .*/(\d+)")


@dataclass(frozen=True)
class Unreachable:
    """An address that does not give its image, and why."""

    url: str
    image_id: str
    reason: str


@dataclass(frozen=True)
class _Asked:
    """An address, its image, and how many bytes that has (None: the image is not on this machine)."""

    url: str
    image_id: str
    length: int | None


def check_urls(
    study: FrozenStudy, *, client: httpx.Client | None = None, at_once: int = 16, timeout: float = 10
) -> list[Unreachable]:
    """Return the addresses that do not answer with their image, in the order of images.csv.

    Each distinct address is asked once, by HEAD, or by a GET of one byte where HEAD is refused;
    redirects are followed. Status, content type and, where the image is here to compare, length
    must fit. `timeout` in seconds, `at_once` requests in parallel. Raises AssayError where the study
    has no addresses.
    """
    table = study.images.table[["image_id", "url"]].drop_duplicates("url")
    if (without := table["url"] == "").any():
        raise AssayError(
            f"image {table.loc[without, 'image_id'].iloc[0]!r} of the study {study.name} has no address: "
            f"assay host --study {study.name} --base-url https://.../{{file}} gives each image one"
        )
    asked = [_Asked(url, image, _length(study, image)) for image, url in table.itertuples(index=False)]
    with _client(client, timeout) as own, ThreadPoolExecutor(at_once) as pool:
        reasons = pool.map(partial(_fault, own, timeout), asked)
        shown = tqdm(reasons, total=len(asked), desc="image addresses", unit="image", leave=False)
        return [
            Unreachable(one.url, one.image_id, fault)
            for one, fault in zip(asked, shown, strict=True)
            if fault
        ]


@contextmanager
def _client(client: httpx.Client | None, timeout: float) -> Iterator[httpx.Client]:
    if client is not None:
        yield client
        return
    with httpx.Client(timeout=timeout) as own:
        yield own


def _length(study: FrozenStudy, image_id: str) -> int | None:
    try:
        return len(study.images.encoded(image_id)[0])
    except AssayError:
        return None


def _fault(client: httpx.Client, timeout: float, asked: _Asked) -> str:
    """Return why an address does not give its image, "" where it does."""
    try:
        answer = _ask(client, "HEAD", asked.url, timeout)
        if answer.status_code in HEAD_REFUSED or _whole_length(answer) == 0:
            answer = _ask(client, "GET", asked.url, timeout)
    except httpx.TimeoutException:
        return f"no answer in {timeout:g} s"
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return f"no answer: {error or type(error).__name__}"
    return _unfit(answer, asked.length)


def _ask(client: httpx.Client, method: str, url: str, timeout: float) -> httpx.Response:
    headers = HEADERS | ({"Range": "bytes=0-0"} if method == "GET" else {})
    with client.stream(method, url, headers=headers, timeout=timeout, follow_redirects=True) as answer:
        return answer


def _unfit(answer: httpx.Response, expected: int | None) -> str:
    if answer.status_code not in ANSWERED:
        return f"status {answer.status_code} {answer.reason_phrase}".rstrip()
    kind = answer.headers.get("Content-Type", "")
    if not kind.lower().startswith("image/"):
        return f"content type {kind or 'none'}, expected an image"
    length = _whole_length(answer)
    if length == 0:
        return "content length 0: an empty file"
    if None not in (length, expected) and length != expected:
        return f"content length {length}, expected {expected}: not the study's image"
    return ""


def _whole_length(answer: httpx.Response) -> int | None:
    """Return the length of the whole file in bytes, None where the answer does not say."""
    if answer.status_code == 206:
        whole = WHOLE_LENGTH.fullmatch(answer.headers.get("Content-Range", ""))
        return int(whole[1]) if whole else None
    length = answer.headers.get("Content-Length", "")
    return int(length) if length.isdecimal() and "Content-Encoding" not in answer.headers else None
