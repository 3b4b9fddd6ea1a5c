"""Numbers and lines of a text for a terminal."""

from collections.abc import Sequence
from textwrap import fill

import pandas as pd

from pipeline.report.aligned import MISSING

WIDTH = 110


def wrapped(lines: Sequence[str]) -> str:
    """Return each text in lines of `WIDTH` letters."""
    return "".join(f"{fill(line, WIDTH, break_long_words=False, break_on_hyphens=False)}\n" for line in lines)


def estimates(rows: pd.DataFrame, value: str, low: str, high: str) -> list[str]:
    """Return a column's values with their intervals."""
    return [_estimate(*three) for three in zip(rows[value], rows[low], rows[high], strict=True)]


def _estimate(value: float, low: float, high: float) -> str:
    if pd.isna(value) or pd.isna(low):
        return number(value)
    return f"{number(value)} ({number(low)} to {number(high)})"


def number(value: float) -> str:
    """Return three digits; what rounds to 0 has no sign."""
    return MISSING if pd.isna(value) else f"{value:.3f}".replace("-0.000", "0.000")


def percent(confidence: float) -> str:
    """Return a level in per cent."""
    return f"{100 * confidence:g}%"


def p_value(p: float) -> str:
    """Return a p value with two digits."""
    if pd.isna(p):
        return MISSING
    return "<.0001" if p < 1e-4 else f"{p:.2g}"
