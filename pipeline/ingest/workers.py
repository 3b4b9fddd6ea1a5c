"""What the ratings say about each worker, and who should be looked at."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import exp, isnan, nan, prod
from statistics import median

from pipeline.ingest.joining import Reading
from pipeline.ingest.settling import AGAIN, DIFFER, RIGHT, SAME_WORKER, WRONG
from pipeline.study.asked import Asked

# A person misses what others see about as often as raters err at all (arXiv 2506.07985: 0.23).
MOST_SEEN = 0.77
IDLE_CHANCE = 0.001
FAST_SHARE = 1 / 3
FEWEST_TIMED = 3


@dataclass(frozen=True)
class WorkerFacts:
    """`seconds`: the median of a task, NaN where no time is known. `n_idle`: tasks answered all no."""

    worker: str
    n_ratings: int
    n_tasks: int
    share_yes: float
    seconds: float
    n_checks: int
    n_right: int
    n_idle: int
    flags: tuple[str, ...]


def worker_facts(readings: Sequence[Reading], reasons: Sequence[str], asked: Asked) -> list[WorkerFacts]:
    """Return the facts of every worker with a rating, by name.

    Flags: all no far more often than others on the same inputs (a Poisson chance under 1 in 1000);
    a median time under a third of all workers' median (three workers or more); repeats.
    """
    used: dict[str, dict[str, list[Reading]]] = {}
    checks: dict[str, list[bool]] = {}
    repeats: dict[str, int] = {}
    for reading, reason in zip(readings, reasons, strict=True):
        worker = reading.copy.worker
        if not reason:
            used.setdefault(worker, {}).setdefault(reading.copy.assignment, []).append(reading)
        elif reason in (RIGHT, WRONG):
            checks.setdefault(worker, []).append(reason == RIGHT)
        elif reason.startswith((AGAIN, DIFFER, SAME_WORKER)):
            repeats[worker] = repeats.get(worker, 0) + 1
    votes = _votes(reading for tasks in used.values() for task in tasks.values() for reading in task)
    facts = [
        _facts(worker, used[worker], votes, checks.get(worker, []), repeats.get(worker, 0))
        for worker in sorted(used)
    ]
    usual = _usual(one.seconds for one in facts)
    fast = f"fast: the median worker takes {usual:.0f} s a task"
    return [
        replace(one, flags=(*one.flags, fast)) if one.seconds < FAST_SHARE * usual else one for one in facts
    ]


def _facts(
    worker: str,
    tasks: dict[str, list[Reading]],
    votes: dict[str, tuple[int, int]],
    checks: list[bool],
    n_repeats: int,
) -> WorkerFacts:
    said = [bool(reading.vote) for task in tasks.values() for reading in task]
    n_idle = sum(not any(reading.vote for reading in task) for task in tasks.values())
    expected = sum(_chance_of_all_no(task, votes) for task in tasks.values())
    flags = []
    if n_idle and poisson_tail(n_idle, expected) < IDLE_CHANCE:
        flags.append(f"idling? {n_idle} of {len(tasks)} tasks all no; as the others answered: {expected:.1f}")
    if n_repeats:
        flags.append(f"{n_repeats} repeats")
    return WorkerFacts(
        worker,
        len(said),
        len(tasks),
        sum(said) / len(said),
        _median_seconds(tasks.values()),
        len(checks),
        sum(checks),
        n_idle,
        tuple(flags),
    )


def poisson_tail(count: int, mean: float) -> float:
    """Return the chance of `count` or more events where `mean` are expected."""
    term = below = exp(-mean) if count else 0.0
    for k in range(1, count):
        term *= mean / k
        below += term
    return max(0.0, 1 - below)


def _votes(readings: Iterable[Reading]) -> dict[str, tuple[int, int]]:
    """Return how many said yes and how many rated, by input id."""
    votes: dict[str, tuple[int, int]] = {}
    for reading in readings:
        yes, n = votes.get(reading.input_id, (0, 0))
        votes[reading.input_id] = (yes + bool(reading.vote), n + 1)
    return votes


def _chance_of_all_no(task: list[Reading], votes: dict[str, tuple[int, int]]) -> float:
    """Return the chance that a worker who answers as the others did says no to a whole task."""
    return prod(1 - min(MOST_SEEN, _others_yes(reading, votes)) for reading in task)


def _others_yes(reading: Reading, votes: dict[str, tuple[int, int]]) -> float:
    yes, n = votes[reading.input_id]
    return (yes - bool(reading.vote)) / (n - 1) if n > 1 else 0.0


def _median_seconds(tasks: Iterable[list[Reading]]) -> float:
    times = [time for task in tasks if not isnan(time := task[0].copy.seconds)]
    return median(times) if times else nan


def _usual(times: Iterable[float]) -> float:
    known = [time for time in times if not isnan(time)]
    return median(known) if len(known) >= FEWEST_TIMED else nan
