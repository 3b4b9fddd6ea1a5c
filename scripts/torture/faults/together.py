"""Several runs at once: the others wait, all end with 0, and the bytes are the same."""

from scripts.torture.campaign import Campaign
from scripts.torture.sweeps import Sweep

FAULT = "together"


def run(campaign: Campaign) -> None:
    """Two runs of a sweep, three of it, and one of each of two sweeps."""
    first, second = campaign.sweeps[0], campaign.sweeps[-1]
    _at_once(campaign, [first, first])
    _at_once(campaign, [second, second, second])
    _at_once(campaign, [first, second])


def _at_once(campaign: Campaign, sweeps: list[Sweep]) -> None:
    victim = campaign.victim("together")
    victim.remove([stage for sweep in sweeps for stage in sweep.quick])
    names = " and ".join(sweep.name for sweep in sweeps)
    campaign.ledger.did(FAULT, f"{len(sweeps)} at once", names)
    runs = [victim.start("run", *sweep.arguments) for sweep in sweeps]
    ended = [each.end() for each in runs]
    for each in ended:
        campaign.read(FAULT, each, failed=each.code != 0)
    codes = [each.code for each in ended]
    campaign.ledger.check(FAULT, "all ended with 0", not any(codes), f"{names}: {codes}")
    waited = sum("waiting for it to end" in each.said for each in ended)
    campaign.ledger.check(FAULT, "all but one waited", waited == len(sweeps) - 1, f"{names}: {waited}")
    worked = [each for each in ended if " stages)" in each.said]
    expected = len({sweep.name for sweep in sweeps})
    campaign.ledger.check(
        FAULT, "each sweep was computed once", len(worked) == expected, f"{names}: {len(worked)}"
    )
    for sweep in dict.fromkeys(sweeps):
        campaign.settled(FAULT, victim, sweep, names)
