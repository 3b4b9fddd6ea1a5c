"""A damaged file at each stage of each track: it is seen, moved aside or said, and made again."""

import shutil
from pathlib import Path
from random import Random

from pipeline.plan.project import Project
from pipeline.plan.store import SMALL, Store
from scripts.torture.campaign import Campaign
from scripts.torture.damaging import DAMAGES, flip, outputs, truncate
from scripts.torture.sweeps import Sweep
from scripts.torture.victim import TIMED, Victim

FAULT = "damage"
META, META_BIT, FOREIGN = "meta.json truncated", "meta.json with a flipped bit", "a foreign file"
KINDS = (*DAMAGES, META, META_BIT, FOREIGN)


def run(campaign: Campaign) -> None:
    """See every kind of damage at every stage, then run each sweep with all stages damaged, each its way."""
    for sweep in campaign.sweeps:
        victim = campaign.victim(f"damage_{sweep.name}")
        stages = _stages(victim, sweep)
        _is_seen(campaign, victim, stages)
        for turn in range(len(KINDS)):
            if campaign.is_over:
                campaign.ledger.skip(FAULT, f"rounds of {sweep.name} from {turn} on: no time was left")
                break
            # A copy a round: what was moved aside and nobody needs is not made again.
            _round(campaign, campaign.victim(victim.root.name), sweep, stages, turn)


def _stages(victim: Victim, sweep: Sweep) -> list[str]:
    """Return the stages that this sweep runs."""
    emptied = victim.copy_to(victim.root.with_name("damage_empty"))
    emptied.remove(emptied.stages())
    stages = sorted(emptied.to_run(sweep))
    shutil.rmtree(emptied.root)
    return stages


def _is_seen(campaign: Campaign, victim: Victim, stages: list[str]) -> None:
    """Damage one file at a time, and put it back."""
    rng = campaign.random(FAULT, "seen", *stages)
    for stage in stages:
        result = rng.choice(sorted((victim.results / stage).glob("k*")))
        aside = victim.root / "aside"
        for kind in KINDS:
            shutil.copytree(result, aside)
            path, size = _hurt(result, kind, rng)
            campaign.ledger.did(FAULT, kind, f"{stage}/{result.name}/{path.name}")
            _check_seen(campaign, victim, result, kind, path, size)
            shutil.rmtree(result)
            aside.rename(result)


def _check_seen(campaign: Campaign, victim: Victim, result: Path, kind: str, path: Path, size: int) -> None:
    """Check that a plan, or hashing everything, sees a damage."""
    plain = Store(Project(victim.root)).damage(result.parent.name, result.name)
    thorough = Store(Project(victim.root)).damage(result.parent.name, result.name, thorough=True)
    where = f"{result.parent.name}/{path.name}"
    if kind in (FOREIGN, META_BIT):  # no file of ours has changed, or only what is said about them
        return
    campaign.ledger.check(FAULT, "seen by verify and by what reads it", bool(thorough), f"{kind} {where}")
    if kind != "flipped bit" or size <= SMALL:
        campaign.ledger.check(FAULT, "seen by the plan", bool(plain), f"{kind} {where}")


def _hurt(result: Path, kind: str, rng: Random) -> tuple[Path, int]:
    """Damage one file of a result; return it and the size it had."""
    path = rng.choice(outputs(result))
    if kind in (META, META_BIT):
        path = result / "meta.json"
    size = path.stat().st_size
    if kind == META:
        truncate(path, rng)
    elif kind == META_BIT:
        flip(path, rng)
    elif kind == FOREIGN:
        path = path.with_name(f"foreign_{path.name}")
        shutil.copy(result / "meta.json", path)
    else:
        DAMAGES[kind](path, rng)
    return path, size


def _round(campaign: Campaign, victim: Victim, sweep: Sweep, stages: list[str], turn: int) -> None:
    """Damage every stage at once, each in the way that is its turn; verify; run."""
    rng = campaign.random(FAULT, sweep.name, turn)
    hurt = []
    for place, stage in enumerate(stages):
        kind = KINDS[(place + turn) % len(KINDS)]
        result = rng.choice(sorted((victim.results / stage).glob("k*")))
        path, _ = _hurt(result, kind, rng)
        hurt.append(f"{kind}: {stage}/{path.name}")
    campaign.ledger.did(FAULT, "rounds with every stage damaged", f"{sweep.name} {turn}: {'; '.join(hurt)}")
    ended = victim.run("run", *sweep.arguments)
    campaign.read(FAULT, ended, failed=ended.code != 0)
    campaign.ledger.check(FAULT, "ended with 0", ended.code == 0, f"{sweep.name} {turn} {hurt}: {ended}")
    verified = victim.run("verify")  # a bit in a big file that nothing read again
    campaign.read(FAULT, verified, failed=verified.code != 0)
    campaign.recovers(FAULT, victim, sweep, f"round {turn}: {hurt}")
    verified = victim.run("verify")
    campaign.ledger.check(FAULT, "all is whole", verified.code == 0, f"{turn} {hurt}: {verified}")
    published = victim.tables(sweep).keys()
    foreign = [name for name in published if name.startswith("foreign_")]
    campaign.ledger.check(FAULT, "no foreign file is published", not foreign, str(foreign))
    for path in victim.results.glob("*/k*/**/foreign_*"):
        if path.parent.name not in TIMED:
            path.unlink()
