"""A page that shows one unit: its images, its texts by method, and their scores; whole in itself."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from math import isnan
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from pipeline.composition import And, Composition, Formula, Linear, Not
from pipeline.report.templating import environment

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

MISSING, MINUS = "-", "\N{MINUS SIGN}"
N_BINS = 40
BREAKS = re.compile(r"(?<=\w)([_.=])(?=[^\W_])")
"""Where names may break; not within the references of escaped text."""
OWN_GROUP = re.compile(r"(?:(?<=^)|(?<=, ))explainer\.")
TITLES = {
    "top": "Most active images",
    "median": "Images around the median",
    "random": "Random images",
}
TARGETS = {
    "rated": "the score if such raters had rated every image",
    "truth": "the correlation with the concept's presence itself",
}


@dataclass(frozen=True)
class Token:
    """A piece of a formula: a concept, or an operator or parenthesis."""

    text: str
    is_concept: bool


@dataclass(frozen=True)
class Score:
    """A row of a scoring result.

    by: who judged. settings: in what the result differs from others of the same text and judge, or "".
    low, high: of the interval, NaN without one; confidence: its level, or NaN; target: see `TARGETS`.
    rank: of the estimate among the n_ranked of its method, 0 where it has none.
    """

    key: str
    kind: str
    by: str
    settings: str
    estimate: float
    low: float
    high: float
    confidence: float
    target: str
    rank: int
    n_ranked: int
    n_images: int
    n_ratings: int
    flags: tuple[str, ...]

    @property
    def remarks(self) -> tuple[str, ...]:
        """The flags, without the one that says what a lacking interval shows."""
        return tuple(flag for flag in self.flags if flag != "no_interval")


@dataclass(frozen=True)
class Text:
    """What a method says of the unit; letter: what stands for the text beside images.

    A unit without a text has a reason instead. facts: columns that the method adds.
    """

    letter: str
    method: str
    settings: str
    description: str
    composition: Composition | None
    reason: str
    facts: tuple[tuple[str, str], ...]
    scores: tuple[Score, ...]


@dataclass(frozen=True)
class Said:
    """What the scorer and raters say of one text on one image."""

    letter: str
    words: str


@dataclass(frozen=True)
class Picture:
    """An image to show: a data URI; activation, and the same standardised (NaN for a constant unit)."""

    image_id: str
    data: str
    rank: int
    activation: float
    standardised: float
    said: tuple[Said, ...]


@dataclass(frozen=True)
class Group:
    """Images that were chosen by one rule; kind: of `TITLES`."""

    kind: str
    rule: str
    pictures: tuple[Picture, ...]


@dataclass(frozen=True)
class Histogram:
    """Counts (B,) of images over equal bins from low to high."""

    counts: tuple[int, ...]
    low: float
    high: float
    median: float


@dataclass(frozen=True)
class Facts:
    """What a unit's activations on the images of the split are like.

    sd_rank: of its sd among the n_judged units, 0 where it is not one of them.
    """

    mean: float
    sd: float
    maximum: float
    positive_share: float
    sd_rank: int
    n_judged: int
    flags: tuple[str, ...]
    histogram: Histogram

    @property
    def constant(self) -> bool:
        """Say whether all images have one activation."""
        return self.histogram.low == self.histogram.high


@dataclass(frozen=True)
class UnitView:
    """All that a unit's page shows; notes: sentences on what is left out."""

    unit: int
    judged: bool
    facts: Facts
    texts: tuple[Text, ...]
    groups: tuple[Group, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class About:
    """What is said on all pages of a units result; place: of which layer; split: "" for all images.

    kind: what the units are, "unit" or "latent".
    """

    key: str
    place: str
    split: str
    n_images: int
    facts: tuple[tuple[str, str], ...]
    index: bool = False
    kind: str = "unit"

    def name(self, unit: int) -> str:
        """Return "Unit 12" or "Latent 12"."""
        return f"{self.kind.capitalize()} {unit}"

    @property
    def images(self) -> str:
        """Name the images that are shown."""
        return f"{self.n_images:,} {self.split} images" if self.split else f"all {self.n_images:,} images"


def unit_page(view: UnitView, about: About) -> str:
    """Return a unit's page: HTML that needs no other file and no network, all text escaped."""
    targets = {score.target for text in view.texts for score in text.scores if score.target}
    legend = [(name, words) for name, words in TARGETS.items() if name in targets]
    letters = {text.letter: text for text in view.texts[::-1] if text.letter}
    lettered = [letters[letter] for letter in dict.fromkeys(text.letter for text in view.texts) if letter]
    template = _environment().get_template("unit.html")
    return template.render(view=view, about=about, targets=legend, titles=TITLES, lettered=lettered)


def index_page(views: Sequence[UnitView], about: About) -> str:
    """Return the list of units: their most active images, and each method's text with its first score.

    A reason that several have stands once, below the table, with a number.
    """
    methods = list(dict.fromkeys((text.method, text.settings) for view in views for text in view.texts))
    rows = [(view, [_of_method(view, method) for method in methods]) for view in views]
    counts = Counter(text.reason for view in views for text in view.texts if text.reason)
    repeated = {reason: place for place, reason in enumerate((r for r, n in counts.items() if n > 1), 1)}
    template = _environment().get_template("units.html")
    return template.render(rows=rows, methods=methods, about=about, repeated=repeated)


def page_name(unit: int, suffix: str = ".html") -> str:
    """Return the file name of a unit's page."""
    return f"unit-{unit}{suffix}"


def letter_of(number: int) -> str:
    """Return A, B, ..., Z, AA, AB, ... for 0, 1, ..."""
    letters = ""
    number += 1
    while number:
        number, digit = divmod(number - 1, 26)
        letters = chr(ord("A") + digit) + letters
    return letters


def histogram_of(values: ArrayLike, n_bins: int = N_BINS) -> Histogram:
    """Return the histogram of values (n,); one value throughout fills one bin."""
    array = np.asarray(values, dtype=np.float64)
    low, high = float(array.min()), float(array.max())
    counts = np.histogram(array, bins=n_bins if low < high else 1)[0] if low < high else [len(array)]
    return Histogram(tuple(int(count) for count in counts), low, high, float(np.median(array)))


def formula_tokens(formula: Formula, *, inside: bool = False) -> tuple[Token, ...]:
    """Return the pieces of a formula in reading order; with spaces between, they are its text."""
    if isinstance(formula, str):
        return (Token(formula, True),)
    if isinstance(formula, Not):
        return (Token("NOT", False), *formula_tokens(formula.part, inside=True))
    word = Token("AND" if isinstance(formula, And) else "OR", False)
    first, *rest = (formula_tokens(part, inside=True) for part in formula.parts)
    joined = (*first, *(token for part in rest for token in (word, *part)))
    return (Token("(", False), *joined, Token(")", False)) if inside else joined


def number(value: float) -> str:
    """Return a measured number for people: three significant digits, a true minus sign, "-" for NaN."""
    if isnan(value):
        return MISSING
    whole = value == 0 or 999.5 <= abs(value) < 1e6
    return (f"{value:.0f}" if whole else f"{value:#.3g}".rstrip(".")).replace("-", MINUS)


def weight_text(value: float) -> str:
    """Return a weight, which has four significant digits at most, with a true minus sign."""
    return f"{value:.4g}".replace("-", MINUS)


def score_text(value: float) -> str:
    """Return a score to three decimals with a true minus sign, "-" for NaN."""
    return MISSING if isnan(value) else f"{value:.3f}".replace("-", MINUS)


def interval_text(score: Score) -> str:
    """Return "0.245 to 0.455", "none" without an interval."""
    if isnan(score.low) or isnan(score.high):
        return "none"
    return f"{score_text(score.low)} to {score_text(score.high)}"


def _of_method(view: UnitView, method: tuple[str, str]) -> list[Text]:
    return [text for text in view.texts if (text.method, text.settings) == method]


def deviations(value: float) -> str:
    """Return a standardised activation in words; NaN is that of a unit that does not vary."""
    if isnan(value):
        return "no deviation"
    rounded = round(value, 1) + 0.0  # no minus zero
    return f"{rounded:+.1f} sd".replace("-", MINUS)


def _breakable(words: str) -> "Markup":
    """Return a name, escaped, that may break after "_", "." and "="."""
    from markupsafe import Markup, escape

    return Markup(BREAKS.sub(r"\1<wbr>", str(escape(words))))


def _of_explainer(settings: str) -> str:
    """Return settings as they stand beside a method's name: without the group's own."""
    return OWN_GROUP.sub("", settings)


def _share(value: float) -> str:
    return f"{100 * value:.1f}%"


def _counted(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def _place(value: float) -> str:
    """Return where a score from -1 to 1 lies on a line of 100."""
    return f"{50 + 50 * max(-1.0, min(1.0, value)):.1f}"


def _heights(histogram: Histogram) -> Iterable[float]:
    """Return the bars' heights, 0 to 1, on a logarithmic scale of counts."""
    logs = np.log1p(histogram.counts)
    return [float(height) for height in logs / logs.max()]


@cache
def _environment() -> "Environment":
    found = environment()
    found.filters |= {
        "number": number,
        "weight": weight_text,
        "score": score_text,
        "interval": interval_text,
        "deviations": deviations,
        "share": _share,
        "counted": _counted,
        "breakable": _breakable,
        "of_explainer": _of_explainer,
        "place": _place,
        "heights": _heights,
        "page_name": page_name,
        "tokens": formula_tokens,
    }
    found.tests |= {
        "nan": isnan,
        "linear": lambda composition: isinstance(composition, Linear),
    }
    return found
