"""Damage to the files that runs keep beside results: memory, plans, locks, acceptances, what was pushed."""

import json
from collections.abc import Callable
from pathlib import Path
from random import Random

from scripts.torture.campaign import Campaign
from scripts.torture.damaging import DAMAGES, flip, overwrite
from scripts.torture.sweeps import Sweep
from scripts.torture.victim import Victim

FAULT = "state_files"
FLIPS = 24
"""Single bits that are flipped in the planner's memory, each on its own."""
ACCEPTED = [{"stage": "units", "kind": "code", "component": "pipeline.stages.units", "old": "a", "new": "b"}]
WAYS: dict[str, Callable[[Path, Random], None]] = {**DAMAGES, "overwritten": overwrite}


def run(campaign: Campaign) -> None:
    """Damage each file in each way; a run does without it, or says what to do."""
    sweep = campaign.sweeps[0]
    victim = campaign.victim("state_files")
    _memory(campaign, victim, sweep)
    _harmless(campaign, victim, sweep)
    _said(campaign, victim, sweep)


def _memory(campaign: Campaign, victim: Victim, sweep: Sweep) -> None:
    path, rng = victim.results / ".memory.sqlite", campaign.random(FAULT, "memory")
    victim.run("plan", *sweep.arguments, "--json")
    _checkpoint(path)
    whole = path.read_bytes()
    ways = [*WAYS.items(), *((f"flipped bit {n}", flip) for n in range(FLIPS))]
    for name, way in ways:
        for beside in victim.results.glob(".memory.sqlite*"):
            beside.unlink()
        path.write_bytes(whole)
        way(path, rng)
        left = victim.to_run(sweep)
        campaign.ledger.did(FAULT, "damaged memories", name)
        campaign.ledger.check(FAULT, "nothing to run", not left, f"{path.name} {name}: {left}")
    campaign.recovers(FAULT, victim, sweep, "memory")


def _checkpoint(path: Path) -> None:
    """Bring what SQLite keeps in its log into the file itself."""
    import sqlite3

    with sqlite3.connect(path) as database:
        database.execute("pragma wal_checkpoint(truncate)")


def _harmless(campaign: Campaign, victim: Victim, sweep: Sweep) -> None:
    """What a run makes anew or does not read: old plans, the lock, the published folder."""
    rng = campaign.random(FAULT, "harmless")
    published = victim.results / "sweeps" / sweep.name / "latest"
    for name, way in WAYS.items():
        plan = next(victim.results.glob(".plans/*.json"))
        for path in (plan, victim.results / ".lock", published / "points.csv", published / "methods.csv"):
            if path.is_file():
                way(path, rng)
                campaign.ledger.did(FAULT, f"{path.name if path != plan else 'plan file'} {name}")
        campaign.recovers(FAULT, victim, sweep, name)
    published.unlink()
    campaign.ledger.did(FAULT, "latest removed")
    campaign.recovers(FAULT, victim, sweep, "latest")


def _said(campaign: Campaign, victim: Victim, sweep: Sweep) -> None:
    """What only a person can mend: acceptances, and what was pushed to a server."""
    rng = campaign.random(FAULT, "said")
    for path, command in (
        (victim.root / "accepted.json", ("run", *sweep.arguments)),
        (victim.results / ".synced.json", ("sync", f"sweep={sweep.name}")),
    ):
        for name in ("truncated", "emptied", "overwritten"):
            path.write_text(json.dumps(ACCEPTED))
            WAYS[name](path, rng)
            ended = victim.run(*command)
            campaign.ledger.did(FAULT, f"{path.name} {name}", f"exit {ended.code}")
            campaign.read(FAULT, ended)
            campaign.ledger.check(FAULT, "names the file", path.name in ended.said, f"{name}: {ended}")
            path.unlink()
        campaign.recovers(FAULT, victim, sweep, path.name)
