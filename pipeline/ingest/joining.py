"""From rows to readings: each vote with the input that it is about, or the reason why it has none."""

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from datetime import datetime
from html import unescape
from math import inf
from typing import NamedTuple

from pipeline.ingest import long_table
from pipeline.ingest.answering import Layout, answered_slots, layout, merged_cells, votes
from pipeline.ingest.sheets import Row, Sheet
from pipeline.ingest.spelling import Vote, vote
from pipeline.ingest.times import read_seconds, read_time
from pipeline.study.asked import Asked, Input

UNKNOWN = Input("", "")
EDITED = "the task was edited after upload"
ANOTHER_IMAGE = "the task showed another image"


class Copy(NamedTuple):
    """One row's copy of an assignment.

    `decided`: when it was approved or rejected (seconds since 1970). `named`: the file says which
    assignment it is.
    """

    source: str
    row: int
    worker: str
    assignment: str
    task: str
    status: str
    rejected: bool
    decided: float
    submitted: datetime | None
    seconds: float
    named: bool


class Reading(NamedTuple):
    """A vote that was read. `input_id` "": not known; `vote` None: the reason says why."""

    copy: Copy
    slot: int | None
    input_id: str
    vote: bool | None
    reason: str


@dataclass(frozen=True)
class Index:
    """What a study asks, for looking up.

    `pairs` gives the input id of (image_id, description), `images` the image ids at an address.
    """

    asked: Asked
    hits: Mapping[str, str]
    pairs: Mapping[tuple[str, str], str]
    images: Mapping[str, Set[str]]
    width: int


def index(asked: Asked, hits: Mapping[str, str]) -> Index:
    """Return the index of a study; hits: HITId to task id."""
    pairs = {(given.image_id, given.description): key for key, given in asked.inputs.items()}
    images: dict[str, set[str]] = {}
    for given in asked.inputs.values():
        if given.url:
            images.setdefault(given.url, set()).add(given.image_id)
    return Index(asked, hits, pairs, images, max(map(len, asked.tasks.values()), default=0))


def readings(source: str, sheet: Sheet, study: Index) -> Iterator[list[Reading]]:
    """Yield the readings of each row: at least one a row."""
    where = layout(sheet, study.width, lambda cells: _n_slots(_task(cells, study), study))
    for row in sheet.rows:
        try:
            cells = merged_cells(row, where)
            fault = row.fault
        except ValueError as error:
            cells, fault = row.cells, row.fault or f"unreadable taskAnswers: {ascii(str(error))[1:-1]}"
        copy = _copy(source, row, cells, study)
        if not fault and not copy.worker:
            fault = "no worker: WorkerId is blank or absent"
        if fault:
            yield _rejected_whole(copy, cells, where, fault)
        elif sheet.single:
            yield [_single(copy, cells, where, study)]
        else:
            yield _of_row(copy, cells, where, study)


def _copy(source: str, row: Row, cells: Mapping[str, str], study: Index) -> Copy:
    get = cells.get
    # Turkle numbers its workers: another server's worker 3 is another person.
    worker = get("Turkle.Username", "").strip() or get("WorkerId", "").strip()
    task, assignment = _task(cells, study), get("AssignmentId", "").strip()
    status, rejection = get("AssignmentStatus", "").strip(), get("RejectionTime", "").strip()
    rejected = status.casefold() == "rejected" or _turned_down(status, get("ApprovalTime", ""), rejection)
    return Copy(
        source,
        row.number,
        worker,
        assignment or f"{worker}@{task or get('HITId', '').strip()}",
        task,
        "Rejected" if rejected else status,
        rejected,
        _decided(get("ApprovalTime", ""), rejection, rejected=rejected),
        read_time(get("SubmitTime", "")),
        read_seconds(get("WorkTimeInSeconds", "")),
        bool(assignment),
    )


def _task(cells: Mapping[str, str], study: Index) -> str:
    named = (cells.get(long_table.TASK, "") or cells.get("Input.task_id", "")).strip()
    return named or study.hits.get(cells.get("HITId", "").strip(), "")


def _n_slots(task: str, study: Index) -> int:
    """Return how many slots a task has up to its last input, 0 for a task that is not known."""
    return max((slot for slot, key in enumerate(study.asked.tasks.get(task, ()), 1) if key), default=0)


def _turned_down(status: str, approval: str, rejection: str) -> bool:
    """Say whether a rejection time means a rejection: not where the work was approved later on."""
    approved, rejected = read_time(approval), read_time(rejection)
    overridden = status.casefold() == "approved" and approved and rejected and approved > rejected
    return bool(rejection) and not overridden


def _decided(approval: str, rejection: str, *, rejected: bool) -> float:
    """Return the later time; an unknown one is the latest for a rejected copy, the earliest otherwise."""
    times = [time.timestamp() for text in (approval, rejection) if (time := read_time(text))]
    unreadable = any(text.strip() and not read_time(text) for text in (approval, rejection))
    if times and not unreadable:
        return max(times)
    return inf if rejected else -inf


def _rejected_whole(copy: Copy, cells: Mapping[str, str], where: Layout, reason: str) -> list[Reading]:
    slots: list[int | None] = [*sorted(answered_slots(cells, where))]
    return [Reading(copy, slot, "", None, reason) for slot in slots or [None]]


def _of_row(copy: Copy, cells: Mapping[str, str], where: Layout, study: Index) -> list[Reading]:
    given = {
        slot: text for slot, column in where.input_ids.items() if (text := cells.get(column, "").strip())
    }
    if not given:
        given = {s: text for s, column in where.image_ids.items() if (text := cells.get(column, "").strip())}
    description = cells.get("Input.description", "") or unescape(cells.get("Input.description_html", ""))
    if copy.task:
        asked = study.asked.tasks.get(copy.task)
        fault = _task_fault(copy.task, asked, given, study)
        inputs: Mapping[int, str] = {slot: key for slot, key in enumerate(asked or ()) if key}
    else:
        hit = cells.get("HITId", "").strip()
        fault = "" if given else f"no Input columns, and no task of this study has this HITId: {hit!a}"
        inputs = given
    if fault := fault or where.doubt:
        return _rejected_whole(copy, cells, where, fault)
    said = votes(cells, inputs, where)
    found = [
        _reading(copy, slot, text, description, _url(cells, slot, where), said[slot], study)
        for slot, text in sorted(inputs.items())
    ]
    return found + _strays(copy, cells, where, inputs)


def _task_fault(task: str, asked: tuple[str, ...] | None, given: Mapping[int, str], study: Index) -> str:
    """Return why a row is not an answer to the study's task, "" where it is."""
    if asked is None:
        return f"task not in the study: {task!a} (edited after upload, or another study's)"
    for slot, text in given.items():
        here = asked[slot] if slot < len(asked) else ""
        if text != here and not _names(text, study.asked.inputs.get(here)):
            return f"{EDITED}: slot {slot} has {text!a}, in the study it has {here!a}"
    missing = [slot for slot, key in enumerate(asked) if key and slot not in given]
    return f"{EDITED}: slot {missing[0]} is empty" if given and missing else ""


def _url(cells: Mapping[str, str], slot: int, where: Layout) -> str:
    return cells.get(where.image_urls.get(slot, ""), "").strip()


def _names(text: str, given: Input | None) -> bool:
    """Say whether a text is the image id of an input, as it is or with entities."""
    return given is not None and given.image_id in (text, unescape(text))


def _reading(
    copy: Copy, slot: int | None, text: str, description: str, url: str, said: Vote, study: Index
) -> Reading:
    key = text if text in study.asked.inputs else _find(text, description, study)
    if key is None:
        return Reading(copy, slot, "", None, f"input not in the study: {text!a}")
    if description and not _same(description, study.asked.inputs[key].description):
        return Reading(copy, slot, key, None, f"{EDITED}: its description is {description!a}")
    there = study.images.get(url) or study.images.get(unescape(url), frozenset())
    if there and study.asked.inputs[key].image_id not in there:
        return Reading(copy, slot, key, None, f"{ANOTHER_IMAGE}: {url!a} is {min(there)!a}")
    if isinstance(said, str):
        return Reading(copy, slot, key, None, said)
    return Reading(copy, slot, key, said, "")


def _strays(copy: Copy, cells: Mapping[str, str], where: Layout, inputs: Mapping[int, str]) -> list[Reading]:
    """Return answers to slots without an input: no is nothing there, unless the file lacks the column."""
    return [
        Reading(copy, slot, "", None, f"an answer where no image is: Answer.image{slot + where.first}")
        for slot, loud in sorted(answered_slots(cells, where, inputs).items())
        if loud or not (copy.task or slot in where.input_ids)
    ]


def _single(copy: Copy, cells: Mapping[str, str], where: Layout, study: Index) -> Reading:
    given, image = (cells.get(name, "").strip() for name in ("Input.input_id0", "Input.image_id0"))
    text = cells.get(where.ticks[0], "").strip()
    said = vote(text, "rating") if text else "no answer: rating is blank"
    if not given and not image:
        return Reading(copy, None, "", None, "no input: input_id and image_id are blank or absent")
    reading = _reading(copy, None, given or image, cells.get("Input.description", ""), "", said, study)
    known = study.asked.inputs.get(reading.input_id)
    if known and image and not _names(image, known):
        return reading._replace(vote=None, reason=f"{EDITED}: its image is {image!a}")
    if known and copy.task and (fault := _membership_fault(copy.task, reading.input_id, study)):
        return reading._replace(vote=None, reason=fault)
    return reading


def _membership_fault(task: str, key: str, study: Index) -> str:
    if task not in study.asked.tasks:
        return f"task not in the study: {task!a} (edited after upload, or another study's)"
    if key not in study.asked.tasks[task]:
        return f"{EDITED}: task {task!a} does not hold {key!a}"
    return ""


def _find(text: str, description: str, study: Index) -> str | None:
    """Return the input id of an image id and a description; entities are read where the raw text fails."""
    for image in (text, unescape(text)):
        for words in (description, description.strip(), unescape(description)):
            if (key := study.pairs.get((image, words))) is not None:
                return key
    return None


def _same(text: str, description: str) -> bool:
    """Say whether two texts are one, but for white space, which changes on the way, and for entities."""
    return " ".join(description.split()) in (" ".join(text.split()), " ".join(unescape(text).split()))


def known_input(reading: Reading, asked: Asked) -> Input:
    """Return the input of a reading, a blank one where it is not known."""
    return asked.inputs.get(reading.input_id, UNKNOWN)
