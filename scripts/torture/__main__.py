"""Torture assay: `python -m scripts.torture --kills 100 --seed 0 --minutes 60`.

Runs the three demos undisturbed in a folder of its own, keeps the SHA-256 of their tables and of all stage
outputs, then lets every fault loose on copies and checks that the same command ends with the same bytes.
Exit code 1 where anything did not hold. Mounts (a full disk, a read-only one) need root, and are left out
without; clock jumps of running processes need a C compiler.
"""

import argparse
import os
import platform
import sys
import time
import traceback
from pathlib import Path

from scripts.torture.campaign import Campaign
from scripts.torture.faults import FAULTS
from scripts.torture.ledger import Ledger
from scripts.torture.sweeps import FULL, REDUCED, Sweep
from scripts.torture.victim import Victim, new_victim


def main() -> int:
    """Run the campaign that the command line asks for; return the exit code."""
    asked = _arguments()
    folder: Path = asked.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    ledger = Ledger(folder)
    sweeps = tuple(sweep for sweep in (FULL if asked.full else REDUCED) if sweep.name in asked.sweeps)
    built = new_victim(folder / "built")
    _undisturbed(ledger, built, sweeps)
    campaign = Campaign(
        folder,
        sweeps,
        asked.seed,
        asked.kills,
        time.monotonic() + 60 * asked.minutes,
        ledger,
        built,
        {sweep.name: built.tables(sweep) for sweep in sweeps},
        built.outputs(),
    )
    began = time.time()
    for fault in asked.faults:
        _let_loose(campaign, fault)
        ledger.write(_facts(asked, sweeps, campaign, began))
    print(ledger.table())
    print(f"{ledger.violations} violations; {folder / 'counts.md'} and {folder / 'messages.md'}")
    return 1 if ledger.violations else 0


def _undisturbed(ledger: Ledger, built: Victim, sweeps: tuple[Sweep, ...]) -> None:
    for sweep in sweeps:
        began = time.monotonic()
        ended = built.run("run", *sweep.arguments)
        if ended.code:
            raise SystemExit(f"{sweep.name} does not run undisturbed:\n{ended.said}")
        ledger.did("undisturbed", sweep.name, f"{time.monotonic() - began:.0f} s")


def _let_loose(campaign: Campaign, fault: str) -> None:
    began = time.monotonic()
    if campaign.is_over:
        campaign.ledger.skip(fault, "no time was left")
        return
    try:
        FAULTS[fault](campaign)
    except Exception:
        campaign.ledger.check(fault, "the campaign itself went on", False, traceback.format_exc())
    campaign.ledger.row(fault).seconds = time.monotonic() - began


def _facts(
    asked: argparse.Namespace, sweeps: tuple[Sweep, ...], campaign: Campaign, began: float
) -> dict[str, object]:
    return {
        "command": f"python -m scripts.torture {' '.join(sys.argv[1:])}",
        "seed": asked.seed,
        "sweeps": "; ".join(" ".join(sweep.arguments) for sweep in sweeps),
        "tables": sum(map(len, campaign.tables.values())),
        "stage outputs": len(campaign.outputs),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}",
        "minutes": round((time.time() - began) / 60, 1),
        "violations": campaign.ledger.violations,
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m scripts.torture", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=90.0, help="no new round of kills begins after")
    parser.add_argument("--full", action="store_true", help="the demos as they are, not reduced")
    parser.add_argument("--folder", type=Path, default=Path(".torture"), help="for the copies and the counts")
    names = [sweep.name for sweep in REDUCED]
    parser.add_argument("--sweeps", nargs="+", choices=names, default=names)
    parser.add_argument("--faults", nargs="+", choices=list(FAULTS), default=list(FAULTS))
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
