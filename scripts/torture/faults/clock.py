"""Clocks that jump, and files whose times lie in the past or the future."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from pipeline.plan.project import Project
from pipeline.plan.store import Store
from scripts.torture.campaign import Campaign
from scripts.torture.sweeps import Sweep
from scripts.torture.victim import Victim

FAULT = "clock"
DAY = 24 * 3600
JUMPS = (1, -1, 40, -400)
"""Days. 40 are more than plans and partial results are kept."""
SHIFT = "SHIFTED_CLOCK"
SHIM = """#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long shift(void) { const char *text = getenv("%s"); return text ? atol(text) : 0; }

int clock_gettime(clockid_t clock, struct timespec *found) {
    int failed = syscall(SYS_clock_gettime, clock, found);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) found->tv_sec += shift();
    return failed;
}

int gettimeofday(struct timeval *found, void *zone) {
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
    found->tv_sec = now.tv_sec;
    found->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *found) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (found) *found = now.tv_sec;
    return now.tv_sec;
}
"""
"""A clock of the day that is SHIFT seconds off, and nothing else, as where somebody sets it.

faketime (0.9.10) also moves what threads wait by: Snakemake then never wakes, or time.sleep fails.
"""


def run(campaign: Campaign) -> None:
    """Move the times of files, then the clock of whole runs, then the times of a folder at work."""
    for sweep in campaign.sweeps:
        _times_of_files(campaign, sweep)
    if shutil.which("cc"):
        library = _compiled(campaign.folder)
        for turn, days in enumerate(JUMPS):
            sweep = campaign.sweeps[turn % len(campaign.sweeps)]
            _clock_of_a_run(campaign, sweep, days, _shifted(library, days))
        _partial_after_weeks(campaign, campaign.sweeps[-1], _shifted(library, 40))
    else:
        campaign.ledger.skip(FAULT, "clocks of runs: there is no C compiler (apt-get install gcc)")
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


def _compiled(folder: Path) -> Path:
    source = folder / "shifted_clock.c"
    source.write_text(SHIM % SHIFT)
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", source.with_suffix(".so"), source], check=True)
    return source.with_suffix(".so")


def _shifted(library: Path, days: int) -> tuple[str, ...]:
    """Return what stands before a command whose clock is days ahead; ValueError where it is not."""
    words = ("env", f"LD_PRELOAD={library}", f"{SHIFT}={days * DAY}")
    asked = [*words, sys.executable, "-c", "import time; print(time.time())"]
    told = float(subprocess.run(asked, capture_output=True, text=True, check=True).stdout)
    if abs(told - time.time() - days * DAY) > 60:
        raise ValueError(f"{library} does not shift the clock: {told} for {days} days")
    return words


def _clock_of_a_run(campaign: Campaign, sweep: Sweep, days: int, shifted: tuple[str, ...]) -> None:
    victim = campaign.victim("clock")
    victim.remove(sweep.quick)
    ended = victim.run("run", *sweep.arguments, wrapped=shifted)
    campaign.ledger.did(FAULT, "runs with another clock", f"{sweep.name} {days:+} days: exit {ended.code}")
    campaign.read(FAULT, ended, failed=ended.code != 0)
    campaign.ledger.check(FAULT, "ended with 0", ended.code == 0, f"{days:+} days: {ended}")
    campaign.settled(FAULT, victim, sweep, f"clock {days:+} days")
    victim.remove([sweep.end])
    campaign.recovers(FAULT, victim, sweep, f"after a clock {days:+} days")


def _partial_after_weeks(campaign: Campaign, sweep: Sweep, shifted: tuple[str, ...]) -> None:
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
    ended = victim.run("run", *sweep.arguments, wrapped=shifted)
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
