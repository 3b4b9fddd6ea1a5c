"""Text in tables that people open in spreadsheets: no cell is run as a formula, and none is lost."""

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

FORMULA = re.compile(r"'*(?:\s*[=+\-@\uff1d\uff0b\uff0d\uff20]|[\t\r\n])")
"""How a cell begins that a spreadsheet may run (the last four are full-width), with any quotes before it."""
NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
NUMERIC = "biufcmM"
"""numpy's kinds of values that are no text."""


def neutralised(text: str) -> str:
    """Return a text with a single quote before it where a spreadsheet might run it; a number is left alone.

    Source: OWASP, CSV Injection. `original` takes the quote away again.
    """
    return f"'{text}" if _is_formula(text) else text


def original(text: str) -> str:
    """Return the text that `neutralised` made this one of: original(neutralised(t)) == t for every t."""
    return text[1:] if text.startswith("'") and _is_formula(text[1:]) else text


def neutral_table(table: "pd.DataFrame") -> "pd.DataFrame":
    """Return a table, every text in it neutralised.

    A carriage return becomes a line feed: pandas writes the first bare, and what follows would begin a row.
    """
    neutral = table.copy()
    for name in table.columns:
        if table[name].dtype.kind not in NUMERIC:
            neutral[name] = table[name].astype(object).map(_neutral_value)
    return neutral


def _neutral_value(value: object) -> object:
    if not isinstance(value, str):
        return value
    return neutralised(value.replace("\r\n", "\n").replace("\r", "\n"))


def _is_formula(text: str) -> bool:
    return FORMULA.match(text) is not None and NUMBER.fullmatch(text) is None
