"""Which readings count: rejected work, copies of an assignment, attention checks, one vote a worker."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from math import isinf, isnan

from pipeline.ingest.joining import Copy, Reading, known_input
from pipeline.study.asked import Asked

REJECTED = "the assignment was rejected"
AGAIN = "the same assignment again"
DIFFER = "two copies of this assignment differ"
CORRECTED = "corrected later"
PRACTICE = "practice in the sandbox: the real work is there too"
SANDBOX, PRODUCTION = "mturk-sandbox.jsonl", "mturk-production.jsonl"
TWICE = "twice in one task"
TWICE_DIFFER = "one image twice in a task, answered differently"
SAME_WORKER = "the same worker on the same input again"
RIGHT, WRONG = "attention check: right", "attention check: wrong"


def settle(readings: Sequence[Reading], asked: Asked) -> list[str]:
    """Return, for each reading, the reason why it does not count, "" where it does.

    The order of the readings does not matter. An assignment is a worker's, so that numbers which start
    again with every worker or server stay apart; where a file names none, each input is one of its own.
    Of an assignment's copies the one decided last tells its status, a rejection where that is not known.
    """
    reasons = [reading.reason for reading in readings]
    _settle_practice(readings, reasons)
    winners = _winners(readings, asked)
    for place, reading in enumerate(readings):
        if not reasons[place] and winners[_identity(reading, asked)].rejected:
            reasons[place] = REJECTED
    _settle_twins(readings, reasons, asked)
    _settle_copies(readings, reasons, winners, asked)
    _settle_checks(readings, reasons, asked)
    _settle_workers(readings, reasons, asked)
    return reasons


def _settle_practice(readings: Sequence[Reading], reasons: list[str]) -> None:
    if not any(reading.copy.source == PRODUCTION for reading in readings):
        return
    for place, reading in enumerate(readings):
        if not reasons[place] and reading.copy.source == SANDBOX:
            reasons[place] = PRACTICE


def _identity(reading: Reading, asked: Asked) -> Hashable:
    """Return what the copies of one assignment have in common."""
    copy = reading.copy
    return copy.worker, copy.assignment, None if copy.named else _pair(reading, asked)


def _pair(reading: Reading, asked: Asked) -> tuple[str, str]:
    given = known_input(reading, asked)
    return given.image_id, given.description


def _winners(readings: Iterable[Reading], asked: Asked) -> dict[Hashable, Copy]:
    winners: dict[Hashable, Copy] = {}
    for reading in readings:
        copy, identity = reading.copy, _identity(reading, asked)
        best = winners.get(identity)
        if best is None or (best is not copy and _standing(copy) > _standing(best)):
            winners[identity] = copy
    return winners


def _standing(copy: Copy) -> tuple[Hashable, ...]:
    """Order copies by decision, then by what they say; of equal ones the first in the files is taken."""
    return (
        copy.decided,
        copy.rejected,
        copy.status,
        -_time(copy),
        0.0 if isnan(copy.seconds) else copy.seconds,
        copy.task,
    )


def _settle_twins(readings: Sequence[Reading], reasons: list[str], asked: Asked) -> None:
    """Let one slot count where a row has an image twice, none where its answers differ."""

    def key(reading: Reading) -> Hashable:
        return reading.copy.source, reading.copy.row, _pair(reading, asked)

    for places in _shared(readings, reasons, key):
        slots = sorted(readings[place].slot or 0 for place in places)
        if len({readings[place].vote for place in places}) > 1:
            for place in places:
                reasons[place] = f"{TWICE_DIFFER}: slots {', '.join(map(str, slots))}"
            continue
        for place in places:
            if (readings[place].slot or 0) != slots[0]:
                reasons[place] = f"{TWICE}: kept is slot {slots[0]}"


def _settle_copies(
    readings: Sequence[Reading], reasons: list[str], winners: Mapping[Hashable, Copy], asked: Asked
) -> None:
    def key(reading: Reading) -> Hashable:
        return _identity(reading, asked), _pair(reading, asked)

    for places in _shared(readings, reasons, key):
        places = _latest(places, readings, reasons)
        copies = [readings[place] for place in places]
        if len({copy.vote for copy in copies}) > 1:
            where = sorted({f"{c.copy.source}, row {c.copy.row}" for c in copies})
            for place in places:
                reasons[place] = f"{DIFFER}: {'; '.join(where[:3])}"
            continue
        winner = winners[_identity(copies[0], asked)]
        kept = max(places, key=lambda p: (readings[p].copy == winner, *_standing(readings[p].copy)))
        for place in places:
            if place != kept:
                reasons[place] = f"{AGAIN}: {readings[kept].copy.source}, row {readings[kept].copy.row}"


def _latest(places: list[int], readings: Sequence[Reading], reasons: list[str]) -> list[int]:
    """Return the copies submitted last: an answer that was corrected afterwards does not count."""
    last = max(_time(readings[place].copy) for place in places)
    if isinf(last):
        return places
    said = {readings[place].vote for place in places if _time(readings[place].copy) == last}
    for place in places:
        if _time(readings[place].copy) < last and readings[place].vote not in said:
            reasons[place] = f"{CORRECTED}: {readings[place].copy.source}, row {readings[place].copy.row}"
    return [place for place in places if not reasons[place]]


def _settle_checks(readings: Sequence[Reading], reasons: list[str], asked: Asked) -> None:
    for place, reading in enumerate(readings):
        if not reasons[place] and (answer := asked.inputs[reading.input_id].answer) is not None:
            reasons[place] = RIGHT if reading.vote == answer else WRONG


def _settle_workers(readings: Sequence[Reading], reasons: list[str], asked: Asked) -> None:
    def key(reading: Reading) -> Hashable:
        return reading.copy.worker, _pair(reading, asked)

    def order(place: int) -> tuple[Hashable, ...]:
        copy = readings[place].copy
        return _time(copy), copy.assignment

    for places in _shared(readings, reasons, key):
        kept = min(places, key=order)
        for place in places:
            if place != kept:
                reasons[place] = f"{SAME_WORKER}: kept is assignment {readings[kept].copy.assignment!a}"


def _shared(
    readings: Sequence[Reading], reasons: Sequence[str], key: Callable[[Reading], Hashable]
) -> list[list[int]]:
    """Return the places that share a key, of readings without a reason; no group of one."""
    groups: dict[Hashable, list[int]] = {}
    for place, reading in enumerate(readings):
        if not reasons[place]:
            groups.setdefault(key(reading), []).append(place)
    return [places for places in groups.values() if len(places) > 1]


def _time(copy: Copy) -> float:
    return copy.submitted.timestamp() if copy.submitted else float("inf")
