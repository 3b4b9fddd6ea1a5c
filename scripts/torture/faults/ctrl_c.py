"""Ctrl-C once and twice on a terminal, with Snakemake's live display at work."""

import fcntl
import os
import pty
import select
import subprocess
import termios
import time
from collections.abc import Callable

import psutil

from scripts.torture.campaign import Campaign
from scripts.torture.sweeps import Sweep
from scripts.torture.victim import Ended, Victim, hear_ctrl_c

FAULT = "ctrl_c"
CTRL_C = b"\x03"
LIMIT = 180.0
"""Seconds until a stage must be at work, and until a stopped run must have ended."""


def run(campaign: Campaign) -> None:
    """Press Ctrl-C at several moments, once and twice, and while the run still plans."""
    sweep = campaign.sweeps[0]
    for name, pauses, at_work in (
        ("as a stage begins", (0.0,), True),
        ("once", (2.0,), True),
        ("twice at once", (2.0, 0.05), True),
        ("twice", (2.0, 1.5), True),
        ("once while it plans", (0.0,), False),
    ):
        victim = campaign.victim("ctrl_c")
        victim.remove(sweep.quick)
        ended = _press(victim, sweep, pauses, at_work)
        campaign.ledger.did(FAULT, name, f"exit {ended.code}")
        campaign.read(FAULT, ended)
        campaign.ledger.check(FAULT, "ended with 130", ended.code == 130, f"{name}: {ended}")
        left = victim.processes()
        campaign.ledger.check(FAULT, "no process goes on", not left, f"{name}: {left}")
        campaign.recovers(FAULT, victim, sweep, name)


def _press(victim: Victim, sweep: Sweep, pauses: tuple[float, ...], at_work: bool) -> Ended:
    """Run a sweep on a terminal of its own and press Ctrl-C, each after a pause, once a stage is at work."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        victim.command("run", *sweep.arguments),
        cwd=victim.root,
        env=victim.environment | {"TERM": "xterm-256color"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=_on_its_terminal,
    )
    os.close(theirs)
    said = bytearray()
    before = _age(victim)
    begun = (lambda: _is_at_work(process.pid)) if at_work else (lambda: _age(victim) != before)
    _read(ours, said, lambda: begun() or process.poll() is not None, LIMIT)
    for pause in pauses:
        _read(ours, said, lambda: False, pause)
        os.write(ours, CTRL_C)
    _read(ours, said, lambda: process.poll() is not None, LIMIT)
    _read(ours, said, lambda: False, 0.2)
    try:
        process.wait(10)  # all have let go of the terminal
    except subprocess.TimeoutExpired:
        process.kill()
        said += b"\nit did not end"
    os.close(ours)
    return Ended(process.wait(), said.decode(errors="replace").replace("\r", ""))


def _on_its_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    hear_ctrl_c()


def _read(terminal: int, said: bytearray, done: Callable[[], bool], limit: float) -> None:
    """Keep what a terminal shows until `done`, or for `limit` seconds."""
    until = time.monotonic() + limit
    while not done() and time.monotonic() < until:
        ready, _, _ = select.select([terminal], [], [], min(0.1, max(0.0, until - time.monotonic())))
        if ready:
            try:
                said += os.read(terminal, 65536)
            except OSError:  # all on the other side have ended
                return


def _age(victim: Victim) -> float:
    """Return when a run last took the project's lock: it plans from then on."""
    return (victim.results / ".lock").stat().st_mtime


def _is_at_work(pid: int) -> bool:
    try:
        children = psutil.Process(pid).children(recursive=True)
        return any("pipeline.execution" in child.cmdline() for child in children)
    except psutil.Error:
        return False
