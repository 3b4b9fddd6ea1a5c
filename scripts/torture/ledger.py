"""What the campaign did, what was held, and what was not."""

import re
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.files import replacing, write_json

VARIES = (
    (r"/\S*?/(?=results\b|conf\b|pipeline\b)", ""),
    (r"k[0-9a-f]{12}", "KEY"),
    (r"-\d{8}T\d{6}-[0-9a-f]{4}", "-TIME"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "TIME"),
    (r"process \d+", "process N"),
    (r"(demo|sae_demo|vlm_demo)-[0-9a-f]{12}-\d+", "PLAN"),
)


@dataclass
class Row:
    """One kind of fault: how often it was done, what was checked, what did not hold, why it was left out."""

    done: Counter[str] = field(default_factory=Counter)
    held: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    skipped: str = ""
    seconds: float = 0.0


@dataclass
class Ledger:
    """The rows of all faults, every message that was said, and the log of what was done when."""

    folder: Path
    rows: dict[str, Row] = field(default_factory=dict)
    messages: dict[str, Counter[str]] = field(default_factory=dict)

    def row(self, fault: str) -> Row:
        """Return the row of a fault."""
        return self.rows.setdefault(fault, Row())

    def did(self, fault: str, what: str, detail: str = "") -> None:
        """Count something that was done, and write it into the log."""
        self.row(fault).done[what] += 1
        self._log(fault, f"{what} {detail}".strip())

    def check(self, fault: str, what: str, holds: bool, detail: str = "") -> bool:
        """Count a check; one that does not hold is a violation."""
        if holds:
            self.row(fault).held[what] += 1
        else:
            self.row(fault).violations.append(f"{what}: {detail}"[:3000])
            self._log(fault, f"VIOLATION {what}: {detail}")
        return holds

    def skip(self, fault: str, why: str) -> None:
        """Say why a fault, or a part of it, was left out."""
        row = self.row(fault)
        row.skipped = "; ".join(filter(None, [row.skipped, why]))
        self._log(fault, f"skipped: {why}")

    def said(self, fault: str, text: str) -> None:
        """Keep what was said, with what varies from run to run taken out."""
        for line in filter(None, map(str.strip, text.splitlines())):
            for pattern, name in VARIES:
                line = re.sub(pattern, name, line)
            self.messages.setdefault(fault, Counter())[line] += 1

    def _log(self, fault: str, line: str) -> None:
        stamped = f"{time.strftime('%H:%M:%S', time.gmtime())} {fault}: {line}"
        print(stamped[:400], flush=True)
        with (self.folder / "log.txt").open("a", encoding="utf-8") as stream:
            stream.write(stamped + "\n")

    @property
    def violations(self) -> int:
        """The number of checks that did not hold."""
        return sum(len(row.violations) for row in self.rows.values())

    def table(self) -> str:
        """Return the counts as a Markdown table."""
        lines = [
            "| fault | done | checks that held | violations | minutes |",
            "| --- | --- | --- | --- | --- |",
        ]
        for fault, row in self.rows.items():
            done = ", ".join(f"{count} {what}" for what, count in row.done.items())
            done = "; ".join(filter(None, [done, f"left out: {row.skipped}" if row.skipped else ""]))
            held = ", ".join(f"{count} {what}" for what, count in row.held.items())
            lines.append(f"| {fault} | {done} | {held} | {len(row.violations)} | {row.seconds / 60:.1f} |")
        return "\n".join(lines)

    def write(self, facts: dict[str, object]) -> None:
        """Write counts.json, counts.md and messages.md."""
        write_json(
            self.folder / "counts.json",
            {**facts, "faults": {fault: vars(row) for fault, row in self.rows.items()}},
        )
        head = "\n".join(f"{name}: {value}" for name, value in facts.items())
        broken = [f"- {fault}: {line}" for fault, row in self.rows.items() for line in row.violations]
        self._text("counts.md", "\n\n".join([head, self.table(), "\n".join(broken)]) + "\n")
        told = [
            f"## {fault}\n\n" + "\n".join(f"{count} x {line}" for line, count in lines.most_common())
            for fault, lines in self.messages.items()
        ]
        self._text("messages.md", "\n\n".join(told) + "\n")

    def _text(self, name: str, text: str) -> None:
        with replacing(self.folder / name) as temporary:
            temporary.write_text(text, encoding="utf-8")
