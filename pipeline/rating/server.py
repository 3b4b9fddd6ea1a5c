"""Serve a study's rating page from this machine."""

import errno
import logging
import re
import socket
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path

import uvicorn

from pipeline.errors import AssayError
from pipeline.rating.app import rating_app
from pipeline.rating.export import n_stored
from pipeline.rating.page import RatingPage
from pipeline.rating.store import Rater, Store, reading
from pipeline.study.frozen import open_study

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
GRACE_SECONDS = 5
EXPOSED = """
This page is open to the network on {host}, over plain HTTP: whoever has a link can rate in its holder's
name, whoever has the owner's link reads everything, and anyone on the way can read the links. Put it behind
TLS (a reverse proxy on this machine, --host 127.0.0.1 and --address https://...), or let raters come through
an SSH tunnel (ssh -L {port}:127.0.0.1:{port} ...).
"""


def serve(
    folder: Path, *, host: str = "127.0.0.1", port: int = 8765, raters: int = 3, address: str | None = None
) -> None:
    """Serve the study in `folder` until Ctrl+C, and print a link for each rater and one for the owner.

    Links are made once: a second start prints the same, asking for more raters adds. host is where
    connections are taken (loopback unless told otherwise); port 0 is any free one; address is what the
    links begin with where a proxy stands in front (https://rate.example.org). Raises AssayError for a
    study that is served already or was edited, and for a port that cannot be had.
    """
    study = open_study(folder.parent, folder.name)
    address = _checked_address(address)
    with closing(_bound(host, port)) as listener, closing(Store(folder)) as store:
        people = store.ensure_raters(raters)
        page = RatingPage(study, store)
        here = address or _address(host, listener.getsockname()[1])

        def announce() -> None:
            _announce(study.name, here, people, store.owner_token)
            if not is_loopback(host):
                print(EXPOSED.format(host=host, port=listener.getsockname()[1]), flush=True)

        _run(page, listener, trusted_hosts(host, address), announce)
    with reading(folder) as connection:
        print(
            f"\n{n_stored(connection)} ratings are stored. Next: assay ingest --study {study.name}",
            flush=True,
        )


def _checked_address(address: str | None) -> str | None:
    """Return an address without its last slash; AssayError where it names no scheme and host."""
    if address is not None and not re.match(r"https?://[^/\s]+", address):
        raise AssayError(f"--address {address}: it starts with https:// (or http://) and a host name")
    return address.rstrip("/") if address else None


def is_loopback(host: str) -> bool:
    """Say whether only this machine reaches `host`."""
    return host in ("localhost", "::1") or host.startswith("127.")


def trusted_hosts(host: str, address: str | None) -> Sequence[str]:
    """Return the host names that requests may carry: loopback names where bound to loopback, else any."""
    if not is_loopback(host):
        return ("*",)
    public = address.partition("://")[2].partition("/")[0].rpartition("@")[2] if address else ""
    name = public if public.endswith("]") else public.rsplit(":", 1)[0]
    return tuple(dict.fromkeys([*LOOPBACK, _bracketed(host), *([name.lower()] if name else [])]))


def _announce(study: str, here: str, people: Sequence[Rater], owner: str) -> None:
    print(
        f"Study {study}: one link a rater. Give each person another one, and keep the owner's for yourself."
    )
    width = max(len(rater.label) for rater in people) if people else 0
    for rater in people:
        print(f"  {rater.label:<{width}}  {here}/r/{rater.token}")
    print(f"  {'owner':<{width}}  {here}/owner/{owner}")
    print("Ctrl+C stops the page; the links stay good for the next start.", flush=True)


def _address(host: str, port: int) -> str:
    name = socket.gethostname() if host in ("", "0.0.0.0", "::") else _bracketed(host)
    return f"http://{name}:{port}"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _bound(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=512)
    except (OSError, OverflowError) as error:
        raise AssayError(_unbound(host, port, error)) from None


def _unbound(host: str, port: int, error: OSError | OverflowError) -> str:
    if getattr(error, "errno", None) == errno.EADDRINUSE:
        return f"port {port} on {host} is in use: stop what runs there, or take another (--port {port + 1})"
    if isinstance(error, PermissionError):
        return f"port {port} on {host} needs more rights than you have: take one above 1023 (--port 8765)"
    return f"cannot listen on {host} port {port}: {error}"


class _Server(uvicorn.Server):
    """Announces itself once it answers and heeds Ctrl+C: an earlier one could be lost."""

    def __init__(self, config: uvicorn.Config, announce: Callable[[], None]) -> None:
        super().__init__(config)
        self._announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then announce."""
        await super().startup(sockets)
        self._announce()


def _run(
    page: RatingPage, listener: socket.socket, hosts: Sequence[str], announce: Callable[[], None]
) -> None:
    # Access logs would hold the tokens of the links.
    config = uvicorn.Config(
        rating_app(page, hosts),
        access_log=False,
        log_level=logging.WARNING,
        server_header=False,
        proxy_headers=False,
        lifespan="off",
        ws="none",
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    with suppress(KeyboardInterrupt):
        _Server(config, announce).run(sockets=[listener])
