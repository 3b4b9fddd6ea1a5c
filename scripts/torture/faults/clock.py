"""Clocks that jump, and files whose times lie in the past or the future."""

import os
import shutil
import signal
import time
from pathlib import Path

from pipeline.plan.project import Project
from pipeline.plan.store import Store
from scripts.torture.campaign import Campaign
from scripts.torture.sweeps import Sweep
from scripts.torture.victim import Victim

FAULT = "clock"
DAY = 24 * 3600
JUMPS = ("+1d", "-1d", "+40d", "-400d")
"""40 days are more than plans and partial results are kept."""
AHEAD = ("env", "FAKETIME_DONT_FAKE_MONOTONIC=1", "DONT_FAKE_MONOTONIC=1", "faketime", "-f")
"""A clock that jumps leaves the monotonic one alone; with a faked one, waiting threads never wake."""


def run(campaign: Campaign) -> None:
    """Move the times of files, then the clock of whole runs, then the times of a folder at work."""
    for sweep in campaign.sweeps:
        _times_of_files(campaign, sweep)
    if shutil.which("faketime"):
        for turn, jump in enumerate(JUMPS):
            _clock_of_a_run(campaign, campaign.sweeps[turn % len(campaign.sweeps)], jump)
        _partial_after_weeks(campaign, campaign.sweeps[-1])
    else:
        campaign.ledger.skip(FAULT, "clocks of runs: there is no faketime (apt-get install faketime)")
    for seconds in (-DAY, DAY):
        _folder_at_work(campaign, campaign.sweeps[0], seconds)


def _times_of_files(campaign: Campaign, sweep: Sweep) -> None:
    victim = campaign.victim("clock")
    for seconds in (DAY, -DAY):
        for part in ("results", "conf", "pipeline", "results/.plans"):
            _move(victim.root / part, seconds)
            left = victim.to_run(sweep)
            campaign.ledger.did(FAULT, "times of files moved", f"{part} {seconds // 3600:+} h")
            campaign.ledger.check(FAULT, "nothing to run", not left, f"{sweep.name} {part}: {left}")
    victim.remove([sweep.end])
    campaign.recovers(FAULT, victim, sweep, "times of files")


def _move(folder: Path, seconds: float) -> None:
    for path in [folder, *folder.rglob("*")]:
        moved = path.lstat().st_mtime + seconds
        os.utime(path, (moved, moved), follow_symlinks=False)


def _clock_of_a_run(campaign: Campaign, sweep: Sweep, jump: str) -> None:
    victim = campaign.victim("clock")
    victim.remove(sweep.quick)
    ended = victim.run("run", *sweep.arguments, wrapped=(*AHEAD, jump))
    campaign.ledger.did(FAULT, "runs with another clock", f"{sweep.name} {jump}: exit {ended.code}")
    campaign.read(FAULT, ended, failed=ended.code != 0)
    campaign.ledger.check(FAULT, "ended with 0", ended.code == 0, f"{jump}: {ended}")
    campaign.settled(FAULT, victim, sweep, f"clock {jump}")
    victim.remove([sweep.end])
    campaign.recovers(FAULT, victim, sweep, f"after a clock {jump}")


def _partial_after_weeks(campaign: Campaign, sweep: Sweep) -> None:
    """Kill a run whose work is kept, then go on with a clock that is past what is kept."""
    victim = campaign.victim("clock")
    victim.remove(["attributions", "synergy", "sii", sweep.end])
    running = victim.start("run", *sweep.arguments)
    until = time.monotonic() + 300
    while not list(victim.results.glob(".partials/*/k*/*.json")) and time.monotonic() < until:
        if running.process.poll() is not None:
            break
        time.sleep(0.1)
    running.signal_all(signal.SIGKILL)
    running.end()
    kept = len(list(victim.results.glob(".partials/*/k*")))
    campaign.ledger.did(FAULT, "kept work 40 days on", f"{kept} folders")
    ended = victim.run("run", *sweep.arguments, wrapped=(*AHEAD, "+40d"))
    campaign.read(FAULT, ended, failed=ended.code != 0)
    campaign.settled(FAULT, victim, sweep, "kept work 40 days on")


def _folder_at_work(campaign: Campaign, sweep: Sweep, seconds: float) -> None:
    """Let the clock jump while a stage is at work: nobody may take its folder for a leftover."""
    victim = campaign.victim("clock")
    victim.remove(sweep.quick)
    running = victim.start("run", *sweep.arguments)
    folder = _hidden(victim, sweep)
    if campaign.ledger.check(FAULT, "a stage was at work", folder is not None, running.log.read_text()):
        assert folder is not None
        _move(folder, seconds)
        Store(Project(victim.root)).sweep_leftovers()
        key = folder.name.split(".")[1]
        there = folder.is_dir() or (folder.parent / key).is_dir()
        campaign.ledger.did(FAULT, "jumps while a stage is at work", f"{seconds // 3600:+} h")
        campaign.ledger.check(FAULT, "its folder is left alone", there, f"{folder} {seconds:+}")
    ended = running.end()
    campaign.read(FAULT, ended, failed=ended.code != 0)
    campaign.ledger.check(FAULT, "ended with 0", ended.code == 0, f"{seconds:+} s: {ended}")
    campaign.settled(FAULT, victim, sweep, f"a folder at work, {seconds:+} s")


def _hidden(victim: Victim, sweep: Sweep) -> Path | None:
    """Return a folder in which a stage is at work, None where none comes."""
    until = time.monotonic() + 300
    while time.monotonic() < until:
        if found := list(victim.results.glob(f"{sweep.quick[1]}/.k*")):
            return found[0]
        time.sleep(0.02)
    return None
