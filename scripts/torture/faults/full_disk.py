"""A full disk under results/: the message names it, nothing half-written counts, with room all goes on."""

from scripts.torture.campaign import Campaign
from scripts.torture.mounts import empty_filler, resize, small_disk, why_not

FAULT = "full_disk"
ROOMS = (0, 30_000, 60_000, 120_000)
"""Bytes that are left when a run starts."""


def run(campaign: Campaign) -> None:
    """Run each sweep on a disk that fills up, at several fillings, then give it room."""
    if why := why_not():
        campaign.ledger.skip(FAULT, why)
        return
    for turn, room in enumerate(ROOMS):
        sweep = campaign.sweeps[turn % len(campaign.sweeps)]
        victim = campaign.victim("full_disk")
        victim.remove(sweep.quick)
        with small_disk(victim.results):
            resize(victim.results, room)
            ended = victim.run("run", *sweep.arguments)
            detail = f"{sweep.name}, {room:,} bytes left"
            campaign.ledger.did(FAULT, "full disks", f"{detail}: exit {ended.code}")
            campaign.read(FAULT, ended)
            campaign.ledger.check(FAULT, "failed", ended.code > 0, f"{detail}: {ended}")
            campaign.ledger.check(FAULT, "names the disk", "disk" in ended.said, f"{detail}: {ended}")
            empty_filler(victim.results)
            resize(victim.results, None)
            campaign.recovers(FAULT, victim, sweep, detail)
