"""From the cells of a row to a vote a slot, by column family.

Ticks, `Answer.image3.on`, are written for every checkbox: blank is missing. Plain checkboxes,
`Answer.image3`, are written only where somebody ticked: blank or absent is no, as far as the image
was shown. `Answer.shown` lists the slots that held an image.
"""

import re
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass

from pipeline.ingest.numbering import Numbers, doubt
from pipeline.ingest.sheets import Row, Sheet
from pipeline.ingest.spelling import Vote, spelled, vote
from pipeline.ingest.task_answers import COLUMN, NOTHING, answer_cells

NUMBER = r"(0|[1-9]\d{0,3})"
TICK = re.compile(rf"Answer\.image{NUMBER}\.on", re.A)
PLAIN = re.compile(rf"Answer\.image{NUMBER}", re.A)
INPUT_ID = re.compile(rf"Input\.input_id{NUMBER}", re.A)
IMAGE_ID = re.compile(rf"Input\.image_id{NUMBER}", re.A)
IMAGE_URL = re.compile(rf"Input\.image_url{NUMBER}", re.A)
SHOWN = "Answer.shown"
SHOWN_FORM = re.compile(r"[\d\s,;|\[\]\"']*", re.A)


@dataclass(frozen=True)
class Layout:
    """Where a file keeps its inputs (columns by slot) and its answers (columns by number).

    `first`: the number of the answer to slot 0. `doubt`: why that is not known, "" where it is.
    """

    input_ids: Mapping[int, str]
    image_ids: Mapping[int, str]
    image_urls: Mapping[int, str]
    ticks: Mapping[int, str]
    plain: Mapping[int, str]
    first: int
    doubt: str
    shown: bool
    task_answers: bool


def layout(sheet: Sheet, width: int, n_slots: Callable[[Mapping[str, str]], int]) -> Layout:
    """Return a file's layout.

    width: the slots of the study's longest task (0: not known). n_slots: those of the study's task that
    a row answers (0: not known).
    """
    columns = sheet.columns | _task_answer_columns(sheet)
    ids, images, urls = (_numbered(sheet.columns, form) for form in (INPUT_ID, IMAGE_ID, IMAGE_URL))
    ticks, plain = _numbered(columns, TICK), _numbered(columns, PLAIN)
    asked, answers = {*ids, *images, *urls}, {*ticks, *plain}
    numbers = Numbers(
        asked,
        answers,
        _all_shown(sheet) if SHOWN in columns and 0 not in answers else frozenset(),
        max(width, len(asked)),
        every_box=bool(ticks) and not sheet.as_asked,
        as_asked=bool(ticks) and sheet.as_asked,
    )
    from_ = numbers.first_input()
    longest = 0 if numbers.has_zero else _longest(sheet, (ids, images, urls), from_, n_slots)
    first = numbers.first_answer(longest)
    return Layout(
        input_ids={number - from_: column for number, column in ids.items()},
        image_ids={number - from_: column for number, column in images.items()},
        image_urls={number - from_: column for number, column in urls.items()},
        ticks=ticks,
        plain=plain,
        first=first or 0,
        doubt=doubt(longest, ".on" if ticks else "") if first is None else "",
        shown=SHOWN in columns,
        task_answers=COLUMN in columns,
    )


def merged_cells(row: Row, where: Layout) -> Mapping[str, str]:
    """Return a row's cells with those that `taskAnswers` says.

    ValueError where that cannot be read, or says another thing than a column of its own.
    """
    text = row.cells.get(COLUMN, "").strip() if where.task_answers else ""
    if not text:
        return row.cells
    said = answer_cells(text)
    for name, cell in said.items():
        beside = row.cells.get(name, "").strip()
        if beside and spelled(beside) is not spelled(cell):
            raise ValueError(f"it differs from the column {name}")
    return {**row.cells, **said}


def votes(cells: Mapping[str, str], slots: Iterable[int], where: Layout) -> dict[int, Vote]:
    """Return the vote of each slot, or the reason why there is none."""
    shown = _shown(cells.get(SHOWN, "")) if where.shown else None
    blank = _Blank(cells, where, shown)
    return {slot: _vote(cells, slot + where.first, where, shown, blank) for slot in slots}


def answered_slots(cells: Mapping[str, str], where: Layout, beside: Container[int] = ()) -> dict[int, bool]:
    """Return the slots but `beside` whose cells are not blank, and whether they say anything but no."""
    said: dict[int, bool] = {}
    for columns in (where.ticks, where.plain):
        for number, column in columns.items():
            slot = number - where.first
            if slot not in beside and (text := cells.get(column, "").strip()):
                said[slot] = said.get(slot, False) or spelled(text) is not False
    return said


class _Blank:
    """What a slot without an answer of its own means in this row."""

    def __init__(self, cells: Mapping[str, str], where: Layout, shown: frozenset[int] | None) -> None:
        self.nothing = NOTHING in cells
        ticked = any(cells.get(column, "").strip() for column in where.ticks.values())
        filled = any(cells.get(column, "").strip() for column in where.plain.values())
        self.plain = not ticked and (not where.ticks or filled or bool(shown))
        self.columns = bool(where.plain)
        self.shown = shown

    def vote(self, number: int) -> Vote:
        """Return no, or the reason why it is missing."""
        if self.nothing:
            return False
        if not self.plain:
            return f"no answer: Answer.image{number}.on is blank"
        if self.shown is not None:
            return False if number in self.shown else f"not shown: {SHOWN} does not list {number}"
        return False if self.columns else f"no answer: no column Answer.image{number}"


def _vote(
    cells: Mapping[str, str], number: int, where: Layout, shown: frozenset[int] | None, blank: _Blank
) -> Vote:
    tick, plain = where.ticks.get(number), where.plain.get(number)
    tick_text = cells.get(tick, "").strip() if tick else ""
    plain_text = cells.get(plain, "").strip() if plain else ""
    if tick and tick_text:
        if plain_text and spelled(plain_text) is not spelled(tick_text):
            return f"two columns that differ: {tick} and {plain}"
        return vote(tick_text, tick)
    if not plain or not plain_text:
        return blank.vote(number)
    if shown is not None and number not in shown:
        return f"not shown: {SHOWN} does not list {number}"
    return vote(plain_text, plain)


def _shown(text: str) -> frozenset[int]:
    """Return the numbers that the page showed; none where the cell is unlike a list of numbers."""
    if not SHOWN_FORM.fullmatch(text):
        return frozenset()
    return frozenset(int(number) for number in re.findall(r"\d{1,4}", text))


def _all_shown(sheet: Sheet) -> frozenset[int]:
    """Return all numbers that any row's page showed."""
    found: set[int] = set()
    for row in sheet.rows:
        said = {} if SHOWN in row.cells else _task_answers(row)
        found |= _shown({**row.cells, **said}.get(SHOWN, ""))
    return frozenset(found)


def _longest(
    sheet: Sheet,
    asked: Iterable[Mapping[int, str]],
    first: int,
    n_slots: Callable[[Mapping[str, str]], int],
) -> int:
    """Return the slots of the longest task in a file: as the study has it, else as its columns are filled."""
    columns = [(number - first, column) for group in asked for number, column in group.items()]

    def filled(row: Row) -> int:
        return max((slot + 1 for slot, column in columns if row.cells.get(column, "").strip()), default=0)

    return max((n_slots(row.cells) or filled(row) for row in sheet.rows if not row.fault), default=0)


def _numbered(columns: Iterable[str], form: re.Pattern[str]) -> dict[int, str]:
    return {int(match[1]): column for column in sorted(columns) if (match := form.fullmatch(column))}


def _task_answer_columns(sheet: Sheet) -> frozenset[str]:
    if COLUMN not in sheet.columns:
        return frozenset()
    return frozenset(name for row in sheet.rows for name in _task_answers(row))


def _task_answers(row: Row) -> dict[str, str]:
    """Return the cells that `taskAnswers` says, none where it cannot be read."""
    text = row.cells.get(COLUMN, "").strip()
    try:
        return answer_cells(text) if text else {}
    except ValueError:
        return {}
