"""One page about what came back."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan

import pandas as pd

from pipeline.crowd.agreement import krippendorff_alpha, pairwise_agreement, worker_agreement
from pipeline.ingest.workers import WorkerFacts

MOST_WORKERS = 20
MOST_REASONS = 15
MOST_FILES = 15


@dataclass(frozen=True)
class FileFacts:
    """A file that was read."""

    source: str
    format: str
    n_rows: int
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Counts:
    """Rows in = used + rejected whole; ratings read = used + rejected."""

    n_rows: int
    n_rows_used: int
    n_read: int
    n_used: int


def summary(
    files: Sequence[FileFacts],
    counts: Counts,
    ratings: pd.DataFrame,
    rejected: pd.DataFrame,
    workers: Sequence[WorkerFacts],
    *,
    n_asked: int,
    n_raters: int,
) -> str:
    """Return the page; n_asked: inputs without attention checks."""
    parts = [
        _accounts(counts),
        _files(files),
        _reasons(rejected),
        _inputs(ratings, n_asked, n_raters),
        _agreement(ratings),
        _workers(workers, worker_agreement(ratings)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def reason_kind(reason: str) -> str:
    """Return a reason without what is particular to one row."""
    return reason if reason.startswith("attention check") else reason.split(": ")[0]


def _accounts(counts: Counts) -> str:
    rows = (counts.n_rows, counts.n_rows_used, counts.n_rows - counts.n_rows_used)
    read = (counts.n_read, counts.n_used, counts.n_read - counts.n_used)
    return _table(
        [
            ["", "in", "used", "rejected", ""],
            ["rows", *map(_count, rows), "(rejected: no rating of the row is used)"],
            ["ratings", *map(_count, read), ""],
        ],
        left=(0, 4),
    )


def _files(files: Sequence[FileFacts]) -> str:
    shown = [[f.source, f.format, _count(f.n_rows), "; ".join(f.notes)] for f in files[:MOST_FILES]]
    return _table([["file", "format", "rows", ""], *shown], left=(0, 1, 3)) + _more(
        files, MOST_FILES, "files"
    )


def _reasons(rejected: pd.DataFrame) -> str:
    if rejected.empty:
        return ""
    kinds = [reason_kind(reason) for reason in rejected["reason"].tolist()]
    places = zip(kinds, rejected["file"].tolist(), rejected["row"].tolist(), strict=True)
    ratings, rows = Counter(kinds), Counter(kind for kind, _, _ in set(places))
    order = sorted(ratings, key=lambda kind: (-ratings[kind], kind))
    shown = [[kind, _count(ratings[kind]), _count(rows[kind])] for kind in order[:MOST_REASONS]]
    return _table([["rejected because", "ratings", "rows"], *shown]) + _more(order, MOST_REASONS, "reasons")


def _inputs(ratings: pd.DataFrame, n_asked: int, n_raters: int) -> str:
    pairs = zip(ratings["image_id"].tolist(), ratings["description"].tolist(), strict=True)
    sizes = Counter(pairs).values()
    fewer, more = sum(size < n_raters for size in sizes), sum(size > n_raters for size in sizes)
    rows = [
        ["inputs", "asked", _count(n_asked)],
        ["", f"rated by {n_raters}", _count(len(sizes) - fewer - more)],
        ["", "by fewer", _count(fewer)],
        ["", "by more", _count(more)],
        ["", "by nobody yet", _count(n_asked - len(sizes))],
    ]
    return _table(rows, left=(0, 1))


def _agreement(ratings: pd.DataFrame) -> str:
    equal, alpha = pairwise_agreement(ratings), krippendorff_alpha(ratings)
    rows = [
        ["agreement", "two raters of an input say the same", _share(equal)],
        ["", "Krippendorff's alpha (1: always, 0: as by chance)", _number(alpha)],
    ]
    return _table(rows, left=(0, 1))


def _workers(workers: Sequence[WorkerFacts], agreement: Mapping[str, float]) -> str:
    order = sorted(workers, key=lambda facts: (not facts.flags, -facts.n_ratings, facts.worker))
    rows = [_worker(facts, agreement[facts.worker]) for facts in order[:MOST_WORKERS]]
    header = ["worker", "ratings", "tasks", "yes", "s a task", "agrees", "checks right", "look at"]
    all_no = sum(facts.n_idle for facts in workers)
    tasks = sum(facts.n_tasks for facts in workers)
    return (
        f"{_count(len(workers))} workers, {sum(bool(facts.flags) for facts in workers)} to look at; "
        f"{_count(all_no)} of {_count(tasks)} assignments are all no (kept)\n"
        + _table([header, *rows], left=(0, 7))
        + _more(order, MOST_WORKERS, "workers")
    )


def _worker(facts: WorkerFacts, agreement: float) -> list[str]:
    return [
        facts.worker,
        _count(facts.n_ratings),
        _count(facts.n_tasks),
        _share(facts.share_yes),
        "-" if isnan(facts.seconds) else f"{facts.seconds:.0f}",
        _share(agreement),
        f"{facts.n_right} of {facts.n_checks}" if facts.n_checks else "-",
        "; ".join(facts.flags),
    ]


def _table(rows: Sequence[Sequence[str]], left: Iterable[int] = (0,)) -> str:
    """Return rows as aligned columns; those in `left` to the left, all others to the right."""
    to_left = set(left)
    cells = [[_one_line(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(width) if place in to_left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]
    return "\n".join(lines)


def _one_line(text: str) -> str:
    shown = "".join(c if c.isprintable() else "?" for c in text)
    return shown if len(shown) <= 80 else shown[:77] + "..."


def _more(items: Sequence[object], shown: int, what: str) -> str:
    return f"\nand {_count(len(items) - shown)} more {what}" if len(items) > shown else ""


def _count(number: int) -> str:
    return f"{number:,}"


def _share(value: float) -> str:
    return "-" if isnan(value) else f"{value:.0%}"


def _number(value: float) -> str:
    return "-" if isnan(value) else f"{value:.2f}"
