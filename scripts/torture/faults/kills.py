"""Random kills: of everything, a stage, Snakemake, `assay` alone; SIGTERM and SIGINT; then the run ends."""

import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from random import Random

import psutil

from scripts.torture.campaign import Campaign
from scripts.torture.sweeps import Sweep
from scripts.torture.victim import Running, Victim

FAULT = "kills"
LONGEST = (5.0, 20.0, 45.0)
"""Seconds from the start of a run to its kill, at most: while it plans, while Snakemake starts, at work."""
FEWEST, MOST = 5, 30
"""Kills in a row before a run may end."""
LONGEST_START = 300.0
"""Seconds until a stage may begin."""
LONG = ("vlm",)
"""A stage that trains for minutes is made once."""


@dataclass(frozen=True)
class Kill:
    """How a run is killed: who gets which signal (False: there was nobody), and whom it waits for before."""

    name: str
    strike: Callable[[Running], bool]
    needs: str = ""


def _everything(running: Running) -> bool:
    running.signal_all(signal.SIGKILL)
    return True


def _assay(running: Running) -> bool:
    running.process.kill()
    return True


def _one(word: str) -> Callable[[Running], bool]:
    def strike(running: Running) -> bool:
        for member in running.members(word):
            member.kill()
            return True
        return False

    return strike


def _term(running: Running) -> bool:
    running.process.terminate()
    return True


def _interrupt(running: Running) -> bool:
    running.signal_all(signal.SIGINT)
    return True


KILLS = (
    Kill("SIGKILL to all", _everything),
    Kill("SIGKILL to a stage", _one("pipeline.execution"), "pipeline.execution"),
    Kill("SIGKILL to Snakemake", _one("snakemake"), "snakemake"),
    Kill("SIGKILL to assay alone", _assay),
    Kill("SIGTERM to assay", _term),
    Kill("SIGINT to all", _interrupt),
)


def run(campaign: Campaign) -> None:
    """Kill runs until the wanted number is reached or the time is up."""
    rng = campaign.random(FAULT)
    victims = {sweep.name: campaign.victim(f"kills_{sweep.name}") for sweep in campaign.sweeps}
    killed, turn = 0, 0
    while killed < campaign.kills and not campaign.is_over:
        sweep = campaign.sweeps[turn % len(campaign.sweeps)]
        victim = victims[sweep.name]
        removed = _remove_some(victim, sweep, rng)
        campaign.ledger.did(FAULT, "rounds", f"{turn}: {sweep.name}, removed {' '.join(removed)}")
        killed += _kill_in_a_row(
            campaign, victim, sweep, rng, min(rng.randint(FEWEST, MOST), campaign.kills - killed)
        )
        campaign.recovers(FAULT, victim, sweep, f"round {turn}")
        turn += 1


def _remove_some(victim: Victim, sweep: Sweep, rng: Random) -> list[str]:
    """Remove the sweep's last stages and a random set of others."""
    stages = [stage for stage in victim.stages() if stage not in LONG]
    share = rng.choice([0.1, 0.3, 1.0])
    removed = [stage for stage in stages if rng.random() < share or stage == sweep.end]
    victim.remove(removed)
    return removed


def _at_work(running: Running) -> str:
    """Return the stages that have a process now."""
    stages: set[str] = set()
    for member in running.members("pipeline.execution"):
        with suppress(psutil.Error):  # it has just ended
            stages.add(member.cmdline()[-2])
    return " ".join(sorted(stages)) or "none"


def _wait(running: Running, limit: float, word: str = "") -> None:
    """Wait for `limit` seconds, the run's end, or a process of the run with `word` in its command."""
    until = time.monotonic() + limit
    while time.monotonic() < until and running.process.poll() is None:
        if word and any(running.members(word)):
            return
        time.sleep(0.05)


def _kill_in_a_row(campaign: Campaign, victim: Victim, sweep: Sweep, rng: Random, n: int) -> int:
    """Start and kill a run n times, fewer where one ends before; return the number of kills."""
    for done in range(n):
        kill, delay = rng.choice(KILLS), rng.uniform(0.3, rng.choice(LONGEST))
        running = victim.start("run", *sweep.arguments)
        began = time.monotonic()
        if kill.needs:
            _wait(running, LONGEST_START, kill.needs)
            delay = min(delay, LONGEST[0])
        _wait(running, delay)
        at_work, seconds = _at_work(running), time.monotonic() - began
        if running.process.poll() is not None:
            campaign.ledger.did(FAULT, "runs that ended before their kill", sweep.name)
            campaign.read(FAULT, running.end(), failed=False)
            return done
        if not kill.strike(running):
            kill = KILLS[0]
            kill.strike(running)
        campaign.ledger.did(FAULT, kill.name, f"{sweep.name} after {seconds:.1f} s, at work: {at_work}")
        ended = running.end()
        spoke = kill.name not in ("SIGKILL to all", "SIGKILL to assay alone")
        campaign.read(FAULT, ended, failed=spoke and ended.code > 0 and bool(ended.said))
    return n
