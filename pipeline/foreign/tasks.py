"""A tasks CSV of another project: inputs, weights and units under names of its own."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from pipeline.delimited import DELIMITERS, first_record
from pipeline.errors import AssayError
from pipeline.foreign.naming import STANDARD, Columns, Naming, Slots, find_columns, read_naming
from pipeline.ingest.sheets import File
from pipeline.ingest.text import DelimitedRows, decode, require_distinct
from pipeline.study.asked import Asked, Input, input_id, task_id
from pipeline.study.frozen import open_study

# Weights p/q have mean 1. Farther off than this over so many draws they are something else.
MEAN_WEIGHT, ENOUGH_DRAWS = (0.05, 20.0), 100
TEXT = ["method", "unit", "description"]
IMAGE = [*TEXT, "image_id"]
UNIT = re.compile(r"(\d+)(\.0+)?", re.ASCII)


@dataclass(frozen=True)
class Foreign:
    """A tasks CSV as a study.

    asked: its inputs, image ids as the file has them. draws: a row a draw, by method, unit and text:
    draw, method, unit (from 0), description, image_id, activation and probability (where the file
    has them), q, weight (p/q), multiplicity, flags (""). n_images is N. hit_ids: HITId to task id,
    where the file tells. header: the file's column names; columns: those that have another standard
    name. answer: the name of slot j's checkbox.
    """

    asked: Asked
    draws: pd.DataFrame
    n_images: int
    hit_ids: Mapping[str, str]
    header: tuple[str, ...]
    columns: Mapping[str, str]
    answer: str


def read_foreign(tasks: Path, mapping: Path | Mapping[str, Any] | None = None) -> Foreign:
    """Read a tasks CSV: a task a row, any delimiter, with or without BOM and CRLF, j from 0 or 1.

    A blank input id is an empty slot; a blank weight an input that was asked about but not drawn
    (an attention check). An image that a (method, unit, text) has k times was drawn k times. A task
    that serves several units lists unit, method, weight and multiplicity joined by ";", as our own
    do. Raises AssayError, with the line, for a column that is not there, a cell that is no number,
    weights that cannot be what `weight_is` says, and two weights, activations or probabilities of
    one image.
    """
    naming = read_naming(mapping)
    rows, header = _rows(tasks)
    columns = find_columns(naming, header, tasks)
    records = [record for row in rows for record in _drawn(row, columns, naming.first_unit)]
    asked, hit_ids = _asked(rows, columns)
    answer = naming.answer or STANDARD["answer"][0]
    draws = _draws(records, naming, tasks)
    standard = columns.standard_names(header)
    return Foreign(asked, draws, naming.n_images, hit_ids, tuple(header), standard, answer)


def asked_of(study: Path, mapping: Path | Mapping[str, Any] | None = None) -> Asked:
    """Return what is asked by a study folder, or by a tasks CSV, whose weights need not be there."""
    if study.is_dir():
        return open_study(study.resolve().parent, study.resolve().name).asked
    rows, header = _rows(study)
    return _asked(rows, find_columns(read_naming(mapping), header, study, weighted=False))[0]


@dataclass(frozen=True)
class _Row:
    """A task: its file, its line, its cells."""

    path: Path
    line: int
    cells: Mapping[str, str]

    def fault(self, column: str, what: str) -> AssayError:
        return AssayError(f"{self.path}, line {self.line}, column {column!r}: {what}")

    def text(self, column: str) -> str:
        """Return a cell; AssayError where it is blank."""
        if not (text := self.cells[column]):
            raise self.fault(column, "blank")
        return text

    def number(self, column: str, user: "_User") -> float | None:
        """Return a cell's number, None where it is blank; of several units' numbers the user's own."""
        texts = self.cells[column].split(";")
        text = texts[user.place].strip() if len(texts) == user.among else self.cells[column]
        if not text:
            return None
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise self.fault(column, f"{text!r} is no number")
        return value

    def needed_number(self, slots: Slots, j: int, user: "_User") -> float | None:
        """Return the number of slot j, None where the file has no such columns."""
        if not slots:
            return None
        if j not in slots or (value := self.number(slots[j], user)) is None:
            raise self.fault(slots.get(j, slots[min(slots)]), f"no number for the drawn input of slot {j}")
        return value


@dataclass(frozen=True)
class _User:
    """A unit (from 0) and method that a task serves, one at `place` among several."""

    unit: int
    method: str
    place: int
    among: int


def _rows(path: Path) -> tuple[list[_Row], list[str]]:
    """Return the tasks and the names of the columns."""
    if not path.is_file():
        raise AssayError(f"{path}: no such tasks CSV")
    text = decode(File(path.name, path.read_bytes()))
    delimiter = max((*DELIMITERS, "|"), key=lambda one: len(first_record(text, one)))
    header = first_record(text, delimiter)
    require_distinct(header, str(path))
    rows = list(DelimitedRows(str(path), text, delimiter, tuple(header)))
    if not rows:
        raise AssayError(f"{path} holds no task; expected a header and a task a row")
    if faulty := next((row for row in rows if row.fault), None):
        raise AssayError(f"{path}, line {faulty.number}: {faulty.fault}")
    stripped = ({name: cell.strip() for name, cell in row.cells.items()} for row in rows)
    return [_Row(path, row.number, cells) for row, cells in zip(rows, stripped, strict=True)], header


def _asked(rows: list[_Row], columns: Columns) -> tuple[Asked, dict[str, str]]:
    """Return what is asked, and the task of each HITId."""
    inputs: dict[str, Input] = {}
    tasks: dict[str, tuple[str, ...]] = {}
    hit_ids: dict[str, str] = {}
    for row in rows:
        text = row.text(columns.description)
        slots = [""] * (max(columns.input_id) - columns.first_slot + 1)
        for j, column in columns.input_id.items():
            if image := row.cells[column]:
                slots[j - columns.first_slot] = key = input_id(image, text)
                inputs[key] = Input(image, text)
        tasks[task := task_id(slots)] = tuple(slots)
        if hit := row.cells.get("HITId"):
            hit_ids[hit] = task
    return Asked(inputs, tasks), hit_ids


def _drawn(row: _Row, columns: Columns, first_unit: int) -> Iterator[dict[str, Any]]:
    """Yield a record for each time that one of a task's images was drawn."""
    for user in _users(row, columns, first_unit):
        weights = _weights(row, columns, user)
        for j, column in columns.input_id.items():
            weight = row.number(weights[j], user) if weights else 1.0
            if not row.cells[column] or weight is None:
                continue
            record = {
                "method": user.method,
                "unit": user.unit,
                "description": row.text(columns.description),
                "image_id": row.cells[column],
                "given": weight,
                "line": row.line,
                "activation": row.needed_number(columns.activation, j, user),
                "probability": row.needed_number(columns.probability, j, user),
            }
            times = row.needed_number(columns.multiplicity, j, user)
            yield from [record] * _times(row, times, j)


def _users(row: _Row, columns: Columns, first_unit: int) -> list[_User]:
    units = row.text(columns.unit).split(";")
    method = row.text(columns.method)
    methods = method.split(";") if len(units) > 1 else [method]
    if len(methods) != len(units):
        raise row.fault(columns.method, f"{method!r} is no method for each of {len(units)} units")
    pairs = enumerate(zip(units, methods, strict=True))
    return [
        _User(_unit(row, columns.unit, text, first_unit), method.strip(), place, len(units))
        for place, (text, method) in pairs
    ]


def _unit(row: _Row, column: str, text: str, first_unit: int) -> int:
    whole = UNIT.fullmatch(text.strip())
    if whole is None or int(whole[1]) < first_unit:
        raise row.fault(column, f"{text!r} is no unit; they are whole numbers from {first_unit} on")
    return int(whole[1]) - first_unit


def _weights(row: _Row, columns: Columns, user: _User) -> Slots:
    """Return the weight column of each slot; none where everything was drawn uniformly."""
    slots = columns.weight.get(user.method, columns.weight.get(""))
    if slots is None:
        known = ", ".join(columns.weight)
        raise row.fault(columns.method, f"the mapping's weight is by method, has {known}, not {user.method}")
    if slots and (without := [j for j in columns.input_id if j not in slots]):
        raise row.fault(columns.input_id[without[0]], f"no weight column of the number {without[0]}")
    return slots


def _times(row: _Row, times: float | None, j: int) -> int:
    if times is None:
        return 1
    if times != int(times) or times < 1:
        raise row.fault(f"multiplicity of slot {j}", f"{times:g} is no number of draws")
    return int(times)


def _draws(records: list[dict[str, Any]], naming: Naming, path: Path) -> pd.DataFrame:
    if not records:
        raise AssayError(f"{path}: no slot holds an input with a weight, so nothing was drawn")
    draws = pd.DataFrame(records)
    given, n_images = draws["given"], naming.n_images
    if (wrong := ~(given > 0)).any():
        line, image = draws.loc[wrong, ["line", "image_id"]].iloc[0]
        raise AssayError(
            f"{path}, line {line}: the weight of {image!r} is {given[wrong].iloc[0]:g}; a drawn image has "
            "one above 0, and an image that was not drawn a blank one"
        )
    held = "p/q" if naming.weight is None else naming.weight_is
    q = {"p/q": 1 / (n_images * given), "q": given, "1/q": 1 / given}[held]
    draws = draws.assign(q=q, weight=1 / (n_images * q), flags="")
    _require_one_value(draws, path)
    _require_weights(draws["weight"], naming, path)
    draws["draw"] = draws.groupby(TEXT, sort=False).cumcount()
    draws["multiplicity"] = draws.groupby(IMAGE, sort=False)["draw"].transform("size")
    known = [name for name in ("activation", "probability") if draws[name].notna().all()]
    return draws[["draw", *IMAGE, *known, "q", "weight", "multiplicity", "flags"]]


def _require_one_value(draws: pd.DataFrame, path: Path) -> None:
    for name in ("given", "activation", "probability"):
        values = draws[[*IMAGE, name]].drop_duplicates()
        if (twice := values.duplicated(IMAGE)).any():
            method, unit, text, image = values.loc[twice, IMAGE].iloc[0]
            what = "weight" if name == "given" else name
            raise AssayError(
                f"{path}: image {image!r} has two values of {what} for unit {unit} of {method} ({text!r}); "
                "one file holds the draws of one proposal: split it"
            )


def _require_weights(weight: "pd.Series[float]", naming: Naming, path: Path) -> None:
    low, high = MEAN_WEIGHT
    mean = float(weight.mean())
    if len(weight) >= ENOUGH_DRAWS and not low <= mean <= high:
        raise AssayError(
            f"{path}: weights p/q have mean 1, and these have {mean:.3g} (weight_is: {naming.weight_is}, "
            f"n_images: {naming.n_images}); the mapping's weight_is says whether they are p/q, q or 1/q"
        )
