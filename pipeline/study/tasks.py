"""From draws to what people are asked: inputs, and tasks of up to 15 inputs with one text."""

import html
from collections.abc import Collection, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
import pandas as pd

from pipeline.errors import AssayError
from pipeline.study.asked import input_id, task_id

PAIR = ["image_id", "description"]
EDITS = "pairs"
"""The part of a study that asks whether edited images show what they should: a verdict each, no score."""
INPUT_COLUMNS = ("input_id", *PAIR, "answer")
TASK_COLUMNS = ("task_id", "study", "description", "description_html", "part", "unit", "method")
SLOT_COLUMNS = ("image_url", "input_id", "weight", "multiplicity")


def make_inputs(
    draws: pd.DataFrame, checks: pd.DataFrame, checksums: Mapping[str, str] | None = None
) -> pd.DataFrame:
    """Return a row an input: input_id, image_id, description, answer, in order of first draw.

    draws has image_id and description, repeats included; a pair is asked once, whichever units and
    methods drew it. checks (attention checks) has image_id, description and answer, `yes` or `no`;
    the answer of a drawn input is "". checksums: each image's, which ids are made from as well.
    Raises AssayError for a check with another answer, for a text that the study does not ask about, for
    an image that was drawn with that text, or given twice.
    """
    drawn = draws[PAIR].drop_duplicates(ignore_index=True).assign(answer="")
    _require_legal(checks, drawn)
    inputs = pd.concat([drawn, checks[[*PAIR, "answer"]]], ignore_index=True)
    known = checksums or {}
    pairs = inputs[PAIR].itertuples(index=False, name=None)
    ids = [input_id(image, text, known.get(image, "")) for image, text in pairs]
    return inputs.assign(input_id=ids)[list(INPUT_COLUMNS)].astype("str")


def make_tasks(
    inputs: pd.DataFrame, draws: pd.DataFrame, urls: Mapping[str, str], study: str, size: int, seed: int
) -> pd.DataFrame:
    """Return a row a task, every cell text: TASK_COLUMNS, then SLOT_COLUMNS by slot from 0 to size-1.

    A text's inputs come in an order that depends on (seed, input) alone, split into as few tasks as
    hold them, of nearly equal length; each task of a text with attention checks holds one. `unit`,
    `method` and `part` list all that share the text, joined by ";", and so do weight (p/q) and
    multiplicity, blank where a unit did not draw the image. urls: image_id to address.
    """
    users = _users(draws)
    rows = [
        _task(str(description), slots, users[str(description)], urls, study)
        for description, own in inputs.groupby("description", sort=False)
        for slots in _split(own, size, seed)
    ]
    return _table(rows, size)


def refreshed_tasks(
    tasks: pd.DataFrame, inputs: pd.DataFrame, draws: pd.DataFrame, urls: Mapping[str, str], size: int
) -> pd.DataFrame:
    """Return tasks that ask the same, with the units, weights and addresses of these draws and images."""
    users = _users(draws)
    known = {row[0]: dict(zip(INPUT_COLUMNS, row, strict=True)) for row in _plain(inputs)}
    held = tasks[[f"input_id{j}" for j in range(size)]].itertuples(index=False, name=None)
    rows = [
        _task(text, [known[cell] for cell in cells if cell], users[text], urls, study)
        for text, study, cells in zip(tasks["description"], tasks["study"], held, strict=True)
    ]
    return _table(rows, size)


def _table(rows: Sequence[Mapping[str, str]], size: int) -> pd.DataFrame:
    columns = [*TASK_COLUMNS, *(f"{name}{j}" for j in range(size) for name in SLOT_COLUMNS)]
    blank = dict.fromkeys(columns, "")
    return pd.DataFrame([{**blank, **row} for row in rows], columns=columns).astype("str")


def _plain(inputs: pd.DataFrame) -> Iterator[tuple[str, ...]]:
    return inputs[list(INPUT_COLUMNS)].itertuples(index=False, name=None)


def count_tasks(draws: pd.DataFrame, size: int, checked: Collection[str] = ()) -> int:
    """Return how many tasks of at most `size` inputs, one text each, hold all distinct pairs of `draws`.

    A task of one of the `checked` texts has room for one less: its attention check.
    """
    inputs = draws[PAIR].drop_duplicates().groupby("description", sort=False).size()
    room = np.where(inputs.index.isin(list(checked)), size - 1, size)
    return int((-(-inputs.to_numpy() // room)).sum())


def _require_legal(checks: pd.DataFrame, drawn: pd.DataFrame) -> None:
    pairs = set(drawn[PAIR].itertuples(index=False, name=None))
    texts = {description for _, description in pairs}
    seen: set[tuple[str, str]] = set()
    for line, (image, text, answer) in enumerate(checks[[*PAIR, "answer"]].itertuples(index=False), start=2):
        where = f"attention check in line {line} (image {image!r} with {text!r})"
        if answer not in ("yes", "no"):
            raise AssayError(f"{where}: answer is {answer!r}; it must be yes or no")
        if text not in texts:
            raise AssayError(f"{where}: the study does not ask about this text; take one that it asks about")
        if (image, text) in pairs:
            raise AssayError(f"{where}: this image was drawn with this text; take an image that was not")
        if (image, text) in seen:
            raise AssayError(f"{where} is given twice; keep one")
        seen.add((image, text))


def _split(own: pd.DataFrame, size: int, seed: int) -> Iterator[list[dict[str, str]]]:
    """Yield the inputs of each task of one text."""
    rows = [dict(zip(INPUT_COLUMNS, row, strict=True)) for row in _plain(own)]
    ordered = sorted(rows, key=lambda row: _shuffled(seed, row["input_id"]))
    asked = [row for row in ordered if not row["answer"]]
    checks = [row for row in ordered if row["answer"]]
    room = size - bool(checks)
    n_tasks = -(-len(asked) // room)
    for number in range(n_tasks):
        part = asked[number * len(asked) // n_tasks : (number + 1) * len(asked) // n_tasks]
        if checks:
            check = checks[number % len(checks)]
            part.insert(int(_shuffled(seed, f"{number} {check['input_id']}"), 16) % (len(part) + 1), check)
        yield part


def _shuffled(seed: int, name: str) -> str:
    return blake2b(f"{seed} {name}".encode(), digest_size=8).hexdigest()


User = tuple[str, int, str]
"""A part, unit and method."""


def _users(draws: pd.DataFrame) -> dict[str, dict[User, dict[str, tuple[str, str]]]]:
    """Return by text, by who uses it, by image drawn: weight and multiplicity as text."""
    users: dict[str, dict[User, dict[str, tuple[str, str]]]] = {}
    columns = ["description", "part", "unit", "method", "image_id", "weight", "multiplicity"]
    for text, part, unit, method, image, weight, times in (
        draws[columns].drop_duplicates().itertuples(index=False)
    ):
        drawn = users.setdefault(text, {}).setdefault((part, unit, method), {})
        drawn[image] = (f"{weight:.10g}", str(times))
    return users


def _task(
    description: str,
    slots: Sequence[Mapping[str, str]],
    users: Mapping[User, Mapping[str, tuple[str, str]]],
    urls: Mapping[str, str],
    study: str,
) -> dict[str, Any]:
    row = {
        "task_id": task_id(slot["input_id"] for slot in slots),
        "study": study,
        "description": description,
        "description_html": html.escape(description),
        "part": ";".join(part for part, _, _ in users),
        "unit": ";".join(str(unit) for _, unit, _ in users),
        "method": ";".join(method for _, _, method in users),
    }
    for j, slot in enumerate(slots):
        cells = [drawn.get(slot["image_id"], ("", "")) for drawn in users.values()]
        row[f"image_url{j}"] = urls.get(slot["image_id"], "")
        row[f"input_id{j}"] = slot["input_id"]
        row[f"weight{j}"] = ";".join(weight for weight, _ in cells)
        row[f"multiplicity{j}"] = ";".join(times for _, times in cells)
    return row
