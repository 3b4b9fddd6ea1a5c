"""The server as a process: many raters at once, a killed server, and what it prints."""

import asyncio
import csv
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import httpx
import numpy as np
import pytest

from pipeline.errors import AssayError
from pipeline.rating.export import export_ratings
from pipeline.rating.server import serve, trusted_hosts

SERVE = """import sys
from pathlib import Path
from pipeline.rating.server import serve
serve(Path(sys.argv[1]), host=sys.argv[2], port=int(sys.argv[3]), raters=int(sys.argv[4]))
"""


def in_a_thread(coroutine):
    """Run a coroutine where no event loop runs: a browser's driver may keep one in this thread."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(asyncio.run, coroutine).result()


class Served:
    """A server process and the links that it printed."""

    def __init__(self, folder, n_raters, port=0, host="127.0.0.1"):
        command = [sys.executable, "-c", SERVE, str(folder), host, str(port), str(n_raters)]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        self.said = ""
        while "Ctrl+C" not in self.said:
            line = self.process.stdout.readline()
            assert line, f"the server ended: {self.said}"
            self.said += line
        self.links = re.findall(r"(http://\S+/r/\S+)", self.said)
        self.owner = re.search(r"(http://\S+/owner/\S+)", self.said)[1]
        self.port = int(re.search(r":(\d+)/", self.owner)[1])

    def end(self, how=signal.SIGINT):
        if self.process.poll() is None:
            self.process.send_signal(how)
        code = self.process.wait(timeout=30)
        self.said += self.process.stdout.read()
        return code


@pytest.fixture
def serving():
    """Return a function that starts a server; all are stopped at the end."""
    started = []

    def start(*args, **kwargs):
        started.append(Served(*args, **kwargs))
        return started[-1]

    yield start
    for served in started:
        served.end(signal.SIGKILL)


@dataclass
class Observed:
    """What simulated raters sent and what they were answered."""

    accepted: dict = field(default_factory=dict)
    sent: dict = field(default_factory=dict)
    latencies: list = field(default_factory=list)
    broken_off: int = 0

    @property
    def unanswered(self):
        return {key: value for key, value in self.sent.items() if key not in self.accepted}


async def asked(client, observed, method, url, **body):
    begun = time.perf_counter()
    answer = await client.request(method, url, **({"json": body} if body else {}))
    observed.latencies.append(time.perf_counter() - begun)
    assert answer.status_code == 200, (method, url, answer.status_code, answer.text)
    return answer


async def submit(client, observed, link, assignment, marks):
    observed.sent[assignment] = (link, frozenset(marks))
    answer = await asked(
        client,
        observed,
        "POST",
        f"{link}/assignments/{assignment}",
        marks=marks,
        seconds=random.uniform(5, 60),
    )
    answer = answer.json()
    assert answer["submitted"] is True
    if "already" not in answer:
        assert assignment not in observed.accepted, "one assignment was accepted twice"
        observed.accepted[assignment] = frozenset(marks)
    return answer["state"]


async def rate(client, observed, link, until):
    """Rate as a browser does: look, draft, submit, now and then twice at once."""
    here = link.split("/r/")[0]
    state = (await asked(client, observed, "GET", f"{link}/state")).json()
    while assignment := state["assignment"]:
        name, inputs = assignment["id"], [each["id"] for each in assignment["inputs"]]
        await asked(client, observed, "GET", here + assignment["inputs"][0]["image"])
        marks = [each for each in inputs if random.random() < 0.3]
        await asked(
            client, observed, "PUT", f"{link}/assignments/{name}/draft",
            marks=marks[:1], version=assignment["version"] + 1,
        )  # fmt: skip
        twice = 2 if random.random() < 0.1 else 1
        states = await asyncio.gather(*(submit(client, observed, link, name, marks) for _ in range(twice)))
        state = states[0]
        if time.monotonic() > until:
            return


async def watch(client, observed, owner, until):
    while time.monotonic() < until:
        await asked(client, observed, "GET", f"{owner}/facts")
        await asyncio.sleep(1)


async def kill(served, observed, n_accepted):
    while len(observed.accepted) < n_accepted:
        await asyncio.sleep(0.01)
    served.process.kill()


async def rate_at_once(served, observed, seconds, kill_after=None):
    until = time.monotonic() + seconds
    limits = httpx.Limits(max_connections=len(served.links) * 2 + 2)
    async with httpx.AsyncClient(limits=limits, timeout=30) as client:
        work = [rate(client, observed, link, until) for link in served.links]
        work.append(watch(client, observed, served.owner, until))
        if kill_after is not None:
            work.append(kill(served, observed, kill_after))
        ends = await asyncio.gather(*work, return_exceptions=kill_after is not None)
    for end in ends:
        if isinstance(end, Exception) and not isinstance(end, httpx.TransportError):
            raise end
        observed.broken_off += isinstance(end, httpx.TransportError)


def stored(folder, target):
    """Return the marked inputs of each assignment in the export, after checking that each is there once."""
    n_rows = export_ratings(folder, target)
    with target.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == n_rows
    assert len({(row["worker"], row["input_id"]) for row in rows}) == n_rows
    marks = {row["assignment"].removeprefix("page-"): set() for row in rows}
    for row in rows:
        if row["rating"] == "yes":
            marks[row["assignment"].removeprefix("page-")].add(row["input_id"])
    return marks


def check_load(folder, served, seconds, target):
    observed, begun = Observed(), time.monotonic()
    in_a_thread(rate_at_once(served, observed, seconds))
    spent = time.monotonic() - begun
    assert stored(folder, target) == observed.accepted
    assert not observed.unanswered
    n, p95 = len(observed.latencies), 1000 * np.quantile(observed.latencies, 0.95)
    print(
        f"{len(served.links)} raters, {spent:.1f} s: {n} requests, {n / spent:.0f} requests/s, "
        f"p95 {p95:.0f} ms, {len(observed.accepted)} assignments accepted"
    )
    assert served.end() == 0
    assert "Traceback" not in served.said
    return observed


@pytest.fixture
def big(tmp_path, write):
    return write(
        tmp_path / "big", titles=[f"thing {k}" for k in range(40)], n_images=100, n_raters=50, seed=1
    )


def test_fifty_raters_at_once_lose_and_double_nothing(big, serving, tmp_path):
    observed = check_load(big, serving(big, 50), 4, tmp_path / "out.csv")
    assert len(observed.accepted) >= 50


@pytest.mark.long
def test_fifty_raters_at_once_for_half_a_minute_lose_and_double_nothing(big, serving, tmp_path):
    observed = check_load(big, serving(big, 50), 30, tmp_path / "out.csv")
    assert len(observed.accepted) >= 50


def test_a_killed_server_loses_no_acknowledged_rating_and_goes_on(big, serving, tmp_path):
    first, observed = serving(big, 10), Observed()
    in_a_thread(rate_at_once(first, observed, 60, kill_after=25))
    assert first.process.wait() == -signal.SIGKILL
    assert observed.broken_off >= 10
    assert len(observed.accepted) >= 25
    before = stored(big, tmp_path / "before.csv")
    assert {name: before.get(name) for name in observed.accepted} == observed.accepted
    assert {name: frozenset(marks) for name, marks in before.items()}.items() <= {
        name: marks for name, (_, marks) in observed.sent.items()
    }.items()
    second = serving(big, 10, port=first.port)
    assert (second.links, second.owner) == (first.links, first.owner)
    in_a_thread(send_again(observed))
    in_a_thread(rate_at_once(second, observed, 1))
    after = stored(big, tmp_path / "after.csv")
    assert after == {name: set(marks) for name, (_, marks) in observed.sent.items()}
    assert len(after) > len(before)


async def send_again(observed):
    """Send what was never answered once more, as the page's outbox does."""
    async with httpx.AsyncClient() as client:
        for name, (link, marks) in observed.unanswered.items():
            await submit(client, observed, link, name, sorted(marks))


def test_ctrl_c_ends_cleanly_and_says_what_is_stored(tmp_path, write, serving):
    served = serving(write(tmp_path / "small"), 2)
    state = httpx.get(f"{served.links[0]}/state").json()
    httpx.post(f"{served.links[0]}/assignments/{state['assignment']['id']}", json={"marks": []})
    assert served.end(signal.SIGINT) == 0
    assert served.said.rstrip().endswith("15 ratings are stored. Next: assay ingest --study small")
    assert "Traceback" not in served.said


def test_a_second_start_prints_the_same_links_and_more_if_asked(tmp_path, write, serving):
    folder = write(tmp_path / "small")
    first = serving(folder, 2)
    first.end()
    second = serving(folder, 3, port=first.port)
    assert second.links[:2] == first.links
    assert (len(second.links), second.owner) == (3, first.owner)
    assert len(set(second.links)) == 3
    assert "open to the network" not in second.said


def test_an_open_port_is_said_to_be_open(tmp_path, write, serving):
    served = serving(write(tmp_path / "small"), 1, host="0.0.0.0")
    httpx.get(f"http://127.0.0.1:{served.port}/r/x")
    served.end()
    said = " ".join(served.said.split())
    assert "open to the network on 0.0.0.0, over plain HTTP" in said
    assert f"ssh -L {served.port}:127.0.0.1:{served.port}" in said


def test_on_loopback_nothing_else_is_listened_to_and_no_token_is_logged(tmp_path, write, serving):
    served = serving(write(tmp_path / "small"), 1)
    link, printed = served.links[0], served.said
    assert link.startswith("http://127.0.0.1:")
    assert httpx.get(f"{link}/state").status_code == 200
    assert httpx.get(link + "x").status_code == 404
    assert httpx.get(link, headers={"host": "evil.example"}).status_code == 400
    with pytest.raises(OSError), socket.create_connection(("127.0.0.2", served.port), timeout=2):
        pass
    served.end()
    assert link.rsplit("/", 1)[1] not in served.said.removeprefix(printed)


def test_a_port_in_use_is_named_with_the_fix(tmp_path, write):
    folder = write(tmp_path / "small")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(AssayError, match=rf"port {port} on 127\.0\.0\.1 is in use.*--port {port + 1}"):
            serve(folder, port=port)


@pytest.mark.parametrize(
    ("host", "port"), [("203.0.113.7", 8765), ("no-such-host.invalid", 1), ("127.0.0.1", 70000)]
)
def test_what_cannot_be_listened_on_is_named(tmp_path, write, host, port):
    with pytest.raises(AssayError, match=f"{re.escape(host)}.*port {port}|port {port} on {re.escape(host)}"):
        serve(write(tmp_path / "small"), host=host, port=port)


def test_a_proxys_name_is_trusted_where_it_is_given():
    loopback = ("127.0.0.1", "localhost", "[::1]")
    assert trusted_hosts("127.0.0.1", None) == loopback
    assert trusted_hosts("::1", None) == loopback
    assert trusted_hosts("127.0.0.1", "https://Rate.example.org:8443/x") == (*loopback, "rate.example.org")
    assert trusted_hosts("127.0.0.1", "http://[fd00::1]:8080") == (*loopback, "[fd00::1]")
    assert trusted_hosts("0.0.0.0", None) == ("*",)
