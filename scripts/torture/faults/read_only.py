"""Results that cannot be written: all of them, or those of one stage."""

from scripts.torture.campaign import Campaign
from scripts.torture.mounts import read_only, why_not
from scripts.torture.sweeps import Sweep

FAULT = "read_only"
ONE_STAGE = {"demo": "sampling", "sae_demo": "matching", "vlm_demo": "synergy"}


def run(campaign: Campaign) -> None:
    """Run each sweep with read-only results, and with a read-only folder of one stage."""
    if why := why_not():
        campaign.ledger.skip(FAULT, why)
        return
    _all_results(campaign, campaign.sweeps[0])
    for sweep in campaign.sweeps:
        _one_stage(campaign, sweep, ONE_STAGE[sweep.name])


def _all_results(campaign: Campaign, sweep: Sweep) -> None:
    victim = campaign.victim("read_only")
    with read_only(victim.results):
        ended = victim.run("plan", *sweep.arguments)
        campaign.ledger.did(FAULT, "plans of read-only results", f"exit {ended.code}")
        campaign.ledger.check(FAULT, "can be planned", ended.code == 0, str(ended))
        campaign.read(FAULT, ended, failed=False)
    for stages in ((), sweep.quick):
        victim.remove(stages)
        with read_only(victim.results):
            ended = victim.run("run", *sweep.arguments)
        campaign.ledger.did(FAULT, "runs on read-only results", f"exit {ended.code}")
        campaign.read(FAULT, ended)
        names = str(victim.results) in ended.said
        campaign.ledger.check(FAULT, "names the folder", names, str(ended))
    campaign.recovers(FAULT, victim, sweep, "all results")


def _one_stage(campaign: Campaign, sweep: Sweep, stage: str) -> None:
    victim = campaign.victim("read_only")
    victim.remove([stage, sweep.end])
    folder = victim.results / stage
    folder.mkdir()
    with read_only(folder):
        ended = victim.run("run", *sweep.arguments)
    campaign.ledger.did(FAULT, "runs on a read-only stage", f"{stage}: exit {ended.code}")
    campaign.read(FAULT, ended)
    campaign.ledger.check(FAULT, "names the folder", f"results/{stage}" in ended.said, str(ended))
    campaign.recovers(FAULT, victim, sweep, stage)
