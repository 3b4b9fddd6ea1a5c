"""Numbers and findings in plain words, which never say more than the numbers do."""

from collections.abc import Sequence
from math import isnan

from pipeline.statistics.intervals import error_level

MISSING, MINUS = "-", "\N{MINUS SIGN}"
ALPHA = 0.05
SMALLEST = 0.0005
"""What is nearer to 0 needs more than three decimals."""


def measured(value: float) -> str:
    """Return a number with three decimals, from 10 on with three digits; a dash where there is none."""
    if value is None or isnan(value):
        return MISSING
    size = abs(value)
    if size >= 999.5:
        words = f"{value:,.0f}"
    elif size >= 10:
        words = f"{value:#.3g}".rstrip(".")
    elif size == 0 or size >= SMALLEST:
        words = f"{value:.3f}"
    else:
        words = f"{value:.1e}"
    return words.replace("-", MINUS)


def spread(low: float, high: float) -> str:
    """Return the two ends of an interval, "" without them."""
    return "" if isnan(low) or isnan(high) else f"{measured(low)} to {measured(high)}"


def with_spread(value: float, low: float, high: float) -> str:
    """Return "0.421 (0.339 to 0.499)", or the value alone."""
    ends = spread(low, high)
    return f"{measured(value)} ({ends})" if ends else measured(value)


def estimate(value: float, low: float, high: float, confidence: float) -> str:
    """Return "0.421 (95% interval 0.339 to 0.499)", or say that there is no interval."""
    ends = spread(low, high)
    told = f"{100 * confidence:g}% interval {ends}" if ends else "no interval"
    return f"{measured(value)} ({told})"


def p_words(p: float, adjusted: str = "Holm") -> str:
    """Return "p < .0001 after Holm", or that there is no p."""
    if isnan(p):
        return "no p value"
    after = f" after {adjusted}" if adjusted else ""
    return ("p < .0001" if p < 1e-4 else f"p = {_p(p)}") + after


def p_cell(p: float) -> str:
    """Return a p value for a table."""
    return MISSING if isnan(p) else "<.0001" if p < 1e-4 else _p(p)


def share(value: float) -> str:
    """Return a share of resamples in percent, but never 0% or 100%: resampling does not show certainty."""
    if isnan(value):
        return MISSING
    return {"100%": ">99%", "0%": "<1%"}.get(words := f"{100 * value:.0f}%", words)


def counted(n: int, noun: str, plural: str = "") -> str:
    """Return "1 unit", "80 units"; plural: where an s does not do."""
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"


def listed(words: Sequence[str]) -> str:
    """Return "a", "a and b", "a, b and c"."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def is_shown(low: float, high: float, p: float, confidence: float) -> bool:
    """Say whether a difference is above 0 by its interval and its p value; an unknown one shows nothing."""
    return low > 0 and high > 0 and p < error_level(confidence)


def _p(p: float) -> str:
    """Return two digits, or as many as it takes to stay on its side of .05."""
    digits = next((n for n in range(2, 9) if (float(f"{p:.{n}g}") < ALPHA) == (p < ALPHA)), 9)
    words = f"{p:.{digits}g}"
    return words.removeprefix("0") if words.startswith("0.") else words
