"""The page of samples: what the model was asked and said, and each explainer's map, tokens and curves."""

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import isfinite, isnan
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.report.templating import TEMPLATES, environment
from pipeline.report.vlm_drawing import LOWER, MINUS, RANDOM, UPPER, counted, number
from pipeline.report.vlm_pixels import LEVELS, heat_uri, shade_levels
from pipeline.report.vlm_sheets import DIGITS, MAX_SHEETS, Explanation, Sheet

if TYPE_CHECKING:
    from jinja2 import Environment

SCRIPT = TEMPLATES / "vlm_samples.js"
MAX_TOKENS = 24
"""A longer question shows the tokens of so many largest absolute scores."""
HEIGHT = 50
"""Of the plot of curves, 100 wide."""
APART = {RANDOM: "knows nothing", UPPER: "upper bound", LOWER: "lower bound"}
MARGIN = 4


@dataclass(frozen=True)
class Bar:
    """A token with a bar of -100 to 100 percent; gap: tokens are left out before it."""

    token: str
    percent: int
    score: float
    gap: bool


def sample_page(
    sheets: Sequence[Sheet],
    title: str,
    *,
    n_samples: int | None = None,
    facts: Sequence[tuple[str, str]] = (),
) -> str:
    """Return a page with a sheet a sample: HTML that needs no other file and no network, all text escaped.

    n_samples: of how many these are (default: all). At most MAX_SHEETS are shown, the first ones; how many
    are left out is said. facts: label and words, at the foot. Sorting and filtering needs scripts; without
    them all sheets stand in the order given.
    """
    shown = list(sheets[:MAX_SHEETS])
    total = len(sheets) if n_samples is None else max(n_samples, len(sheets))
    script = SCRIPT.read_text(encoding="utf-8")
    template = _environment().get_template("vlm_samples.html")
    return template.render(
        **_shown_as(shown, 2),
        title=title,
        n_samples=total,
        n_left_out=total - len(shown),
        facts=facts,
        script=script,
        policy=script_policy(script),
    )


def sheets_part(sheets: Sequence[Sheet]) -> str:
    """Return the legend and the sheets, with headings of the third level, for a page of more than samples."""
    return _environment().get_template("vlm_sheets.html").render(**_shown_as(sheets, 3))


def _shown_as(sheets: Sequence[Sheet], level: int) -> dict[str, Any]:
    """Return what the templates of sheets read."""
    names = [explanation.explainer for sheet in sheets for explanation in sheet.explanations]
    return {
        "sheets": sheets,
        "level": level,
        "explainers": list(dict.fromkeys(names)),
        "answers": sorted({sheet.answer for sheet in sheets if not sheet.flag}),
        "bounds": APART,
        "digits": DIGITS,
        "ends": value_range(sheets),
        "height": HEIGHT,
    }


def script_policy(script: str) -> str:
    """Return what a Content-Security-Policy lets run: this script alone."""
    digest = hashlib.sha256(script.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def token_bars(tokens: Sequence[str], scores: Sequence[float]) -> list[Bar]:
    """Return the tokens (n,) in reading order with their scores as bars.

    Scales are those of the patches: see `shade_levels`. Beyond MAX_TOKENS those of the largest absolute
    scores stay, of equal ones the earlier.
    """
    percents = np.rint(100 * shade_levels(scores) / LEVELS).astype(int).tolist()
    kept = sorted(sorted(range(len(tokens)), key=lambda i: (-abs(scores[i]), i))[:MAX_TOKENS])
    before = [-1, *kept]
    return [
        Bar(tokens[i], percents[i], scores[i], i != last + 1) for last, i in zip(before, kept, strict=False)
    ]


def value_range(sheets: Sequence[Sheet]) -> tuple[float, float]:
    """Return the lowest and highest value of all curves, with 0 and every D in between; never equal.

    One range for all sheets: on its own, a sample with D near 0 would show rounding as if it were synergy.
    """
    curves = [curve for sheet in sheets for each in sheet.explanations for curve in (each.ins, each.del_)]
    dividends = [sheet.dividend for sheet in sheets if isfinite(sheet.dividend)]
    values = [0.0, *dividends, *(value for curve in curves for value in curve)]
    low, high = min(values), max(values)
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _points(values: Sequence[float], ends: tuple[float, float]) -> str:
    """Return the points of a polyline through values (K,) over equal steps."""
    step = 100 / max(len(values) - 1, 1)
    return " ".join(f"{step * i:.4g},{_height(value, ends)}" for i, value in enumerate(values))


def _height(value: float, ends: tuple[float, float]) -> str:
    low, high = ends
    return f"{MARGIN + (HEIGHT - 2 * MARGIN) * (high - value) / (high - low):.1f}"


def _strongest(explanation: Explanation, sheet: Sheet) -> str:
    """Say where the highest patch is, for those who do not see the map."""
    scores = np.asarray(explanation.patches)
    n_highest = int((scores == scores.max()).sum())
    if n_highest == len(scores):
        return "all patches alike"
    row, column = divmod(int(scores.argmax()), sheet.grid[1])
    place = f"row {row + 1}, column {column + 1} of {sheet.grid[0]} by {sheet.grid[1]}"
    return f"highest at {place}" + (f" and {n_highest - 1} more" if n_highest > 1 else "")


def _remarks(explanation: Explanation) -> list[str]:
    """Say what kind of explainer it is where it stands apart, and what makes its ranking doubtful."""
    words = [APART[explanation.explainer]] if explanation.explainer in APART else []
    shares = {"patches": explanation.patch_tie_share, "tokens": explanation.token_tie_share}
    ties = [f"{100 * share:.0f}% of {name}" for name, share in shares.items() if share > 0]
    if ties and explanation.rank:
        words.append(f"tied: {', '.join(ties)}")
    if explanation.n_orders > 1 and explanation.rank:
        words.append(f"F over {explanation.n_orders} tie-breaks, sd {number(explanation.f_sd)}")
    return [*words, *(flag.replace("_", " ") for flag in explanation.flags)]


def _significant(value: float) -> str:
    return "-" if isnan(value) else f"{value:.2g}".replace("-", MINUS)


def _raw(value: float) -> str:
    """Return a number for scripts, "" where there is none."""
    return "" if isnan(value) else f"{value:.5g}"


@cache
def _environment() -> "Environment":
    found = environment()
    found.filters |= {"number": number, "significant": _significant, "raw": _raw, "counted": counted}
    found.tests |= {"nan": isnan}
    found.globals |= {
        "heat_uri": heat_uri,
        "token_bars": token_bars,
        "points": _points,
        "height_of": _height,
        "strongest": _strongest,
        "remarks": _remarks,
    }
    return found
