"""`Answer.taskAnswers`: a JSON list whose first element maps names to objects."""

from typing import Any

from pipeline.ingest.text import load_json, plain_text

COLUMN = "Answer.taskAnswers"
NOTHING = "\0nothing"
"""A cell of our own, by a name that no file can have: the answer is there, and nothing is ticked in it."""


def answer_cells(text: str) -> dict[str, str]:
    """Return the cells of a flattened file that say the same; ValueError where the text cannot be read.

    `{"image0": {"on": true}}` becomes `Answer.image0.on`, `{"image0": "on"}` becomes
    `Answer.image0`; `{}` and `[{}]` become the cell NOTHING.
    """
    value = load_json(text)
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if not isinstance(value, dict):
        raise ValueError("expected a list with one object")
    if not value:
        return {NOTHING: "{}"}
    return {cell: plain_text(said) for name, given in value.items() for cell, said in _flat(name, given)}


def _flat(name: str, given: Any) -> list[tuple[str, Any]]:
    if isinstance(given, dict):
        return [(f"Answer.{name}.{key}", said) for key, said in given.items()]
    return [(f"Answer.{name}", given)]
