"""What a mixed model finds, as text for a terminal."""

import re
from collections.abc import Callable, Sequence

import pandas as pd

from pipeline.report.aligned import aligned
from pipeline.report.wording import estimates, p_value, percent, wrapped

SENTENCES = re.compile(r"(?<=\.) ")
Title = Callable[[Sequence[str], Sequence[str]], str]


def mixed_text(mixed: pd.DataFrame, score: str, method: str, confidence: float, title: Title) -> str:
    """Return what the chosen model finds, highest first, and beside it the paper's if it differs.

    mixed: as `statistics.mixed.table.model_table` gives it; its columns before `model` keep models apart, and
    title(values, names) words them. Empty text for an empty table.
    """
    if mixed.empty:
        return ""
    apart = list(mixed.columns[: list(mixed.columns).index("model")])
    cells = (
        [(tuple(map(str, key)), rows) for key, rows in mixed.groupby(apart, sort=True)]
        if apart
        else [((), mixed)]
    )
    return "".join(_one(rows, score, method, confidence, title(key, apart)) for key, rows in cells)


def _one(rows: pd.DataFrame, score: str, method: str, confidence: float, title: str) -> str:
    """Return the table of one model, or of two side by side, then their formulas and notes, once each."""
    models = {str(name): own for name, own in rows.groupby("model", sort=False)}
    first = next(iter(models.values()))
    columns = {method: list(first[method])}
    for name, own in models.items():
        ordered = own.set_index(method).loc[first[method]]
        columns[name] = estimates(ordered, "estimate", "low", "high")
        columns[f"p (Holm, {name})"] = list(ordered["p_holm"].map(p_value))
    words = [f"{name}: {own['formula'].iloc[0]}" for name, own in models.items()]
    if len(models) == 1 and "paper" not in models:
        words[0] += "; the paper's model is the same here"
    notes = dict.fromkeys(each for note in rows["notes"] for each in SENTENCES.split(str(note)) if each)
    reference = " and ".join(dict.fromkeys(str(own["reference"].iloc[0]) for own in models.values()))
    head = f"{score} over {reference} by a mixed model ({percent(confidence)} interval)"
    named = f"{head}, {title}" if title else head
    return f"{named}\n" + aligned(pd.DataFrame(columns)) + wrapped([*words, " ".join(notes)])
