"""One campaign: the undisturbed project, the folder for copies of it, and what must hold after a fault."""

import random
import re
import time
from dataclasses import dataclass
from pathlib import Path

from scripts.torture.ledger import Ledger
from scripts.torture.sweeps import Sweep
from scripts.torture.victim import Ended, Victim

STRAY = 300.0
"""Seconds that processes may go on whose run was killed."""
WHAT_TO_DO = re.compile(
    r"same command|wait for it|give yourself the right|free (some )?space|Ctrl-C again|a run rebuilds it|"
    r"next run rebuilds it|take it from git|delete it|check the network"
)
IMPORTING = re.compile(
    r"pipeline/(?:cli|execution)\.py\", line \d+, in <module>\n +(from|import) .*\nKeyboardInterrupt", re.S
)
"""Ctrl-C in the first half second, while Python still imports: nothing of assay is at work yet."""


@dataclass(frozen=True)
class Campaign:
    """What all faults share."""

    folder: Path
    sweeps: tuple[Sweep, ...]
    seed: int
    kills: int
    deadline: float
    ledger: Ledger
    built: Victim
    tables: dict[str, dict[str, str]]
    outputs: dict[str, str]

    def victim(self, name: str) -> Victim:
        """Return a copy of the undisturbed project."""
        return self.built.copy_to(self.folder / name)

    def random(self, *names: object) -> random.Random:
        """Return the random numbers of one fault."""
        return random.Random(" ".join(map(str, (self.seed, *names))))

    @property
    def is_over(self) -> bool:
        """Say whether the time is up, or somebody made a file `stop` in the campaign's folder."""
        return time.monotonic() > self.deadline or (self.folder / "stop").exists()

    def read(self, fault: str, ended: Ended, *, failed: bool = True) -> None:
        """Read what a run said: no traceback, and where it `failed` what to do."""
        ledger = self.ledger
        ledger.said(fault, ended.said)
        crashed = "Traceback (most recent" in ended.said and not IMPORTING.search(ended.said)
        ledger.check(fault, "no traceback", not crashed, ended.said[-3000:])
        if failed:
            told = bool(WHAT_TO_DO.search(ended.said) or IMPORTING.search(ended.said))
            ledger.check(fault, "says what to do", told, f"exit {ended.code}: {ended.said[-1500:]!r}")

    def recovers(self, fault: str, victim: Victim, sweep: Sweep, detail: str = "") -> bool:
        """Run the same command to its end and check that nothing of the fault is left."""
        ended = victim.run("run", *sweep.arguments)
        self.read(fault, ended, failed=ended.code != 0)
        ended_well = self.ledger.check(
            fault, "ended with 0", ended.code == 0, f"{detail}: {ended.code}: {ended.said[-2500:]}"
        )
        self.settled(fault, victim, sweep, detail)
        return ended_well

    def settled(self, fault: str, victim: Victim, sweep: Sweep, detail: str = "") -> None:
        """Check a project in which all should be there: bytes, nothing to run, nothing left over."""
        ledger = self.ledger
        stray = wait_for_strays(victim)
        ledger.check(fault, "no stray process", not stray, f"{detail}: {stray}")
        if victim.leftovers():
            victim.run("run", *sweep.arguments)  # orphans that ended just now leave them to the next run
        differ = _differ(self.tables[sweep.name], victim.tables(sweep))
        ledger.check(fault, "same tables", not differ, f"{detail}: {differ}")
        found = victim.outputs()
        differ = [name for name, sha in found.items() if self.outputs.get(name, sha) != sha]
        ledger.check(fault, "same stage outputs", not differ, f"{detail}: {differ[:10]}")
        left = victim.to_run(sweep)
        ledger.check(fault, "nothing to run", not left, f"{detail}: {left}")
        leftovers = victim.leftovers()
        ledger.check(fault, "nothing left over", not leftovers, f"{detail}: {leftovers[:10]}")


def _differ(wanted: dict[str, str], found: dict[str, str]) -> list[str]:
    return sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))


def wait_for_strays(victim: Victim) -> list[str]:
    """Wait for the end of processes that still work in a project; return those that do not end."""
    until = time.monotonic() + STRAY
    while strays := victim.processes():
        if time.monotonic() > until:
            told = [" ".join(each.cmdline())[:200] for each in strays]
            for each in strays:
                each.kill()
            return told
        time.sleep(0.5)
    return []
