"""Pages that show what an attribute's latents fire on: one HTML file each, whole in itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import isnan
from typing import TYPE_CHECKING

from pipeline.report.templating import environment

if TYPE_CHECKING:
    from jinja2 import Environment

SLUG_LENGTH = 60
MISSING, MINUS = "-", "\N{MINUS SIGN}"


@dataclass(frozen=True)
class Picture:
    """An image to show: a data URI, and whether it has the page's attribute."""

    image_id: str
    data: str
    held: bool
    note: str = ""


@dataclass(frozen=True)
class Step:
    """A latent of the coalition and the F1 that the union has with it, where matched and held out."""

    number: int
    latent: int
    f1_matched: float
    f1_held_out: float
    counted: bool


@dataclass(frozen=True)
class LatentExamples:
    """The held-out images on which a latent fires most strongly.

    n_fires: held-out images on which it fires; n_hits: those of them with the attribute.
    """

    step: Step
    n_fires: int
    n_hits: int
    pictures: tuple[Picture, ...]


@dataclass(frozen=True)
class PairExample:
    """A pair of images before and after this attribute changed.

    adds: whether the attribute was added, else removed. other: the attribute it was swapped with, or "".
    delta: change of its latents, -1, 0 or 1, NaN where the pair is left out of the score; graded: the change
    of real codes. empty: there is no latent to judge by.
    """

    pair_id: str
    adds: bool
    other: str
    before: Picture
    after: Picture
    delta: float
    graded: float
    empty: bool


@dataclass(frozen=True)
class PairSide:
    """All pairs that add the attribute, or all that remove it: their mean change, and how many did what."""

    adds: bool
    n_pairs: int
    mean: float
    n_expected: int
    n_still: int
    n_opposite: int


@dataclass(frozen=True)
class Perturbed:
    """What pairs of images say of an attribute; dstay: how much its latents move where it stays."""

    sides: tuple[PairSide, ...]
    examples: tuple[PairExample, ...]
    dstay: float
    n_stay: int


@dataclass(frozen=True)
class AttributeRow:
    """An attribute of the index: counts of images with it, its held-out F1, and its page ("" without one)."""

    name: str
    family: str
    n_matched: int
    n_held_out: int
    reason: str
    n_latents: int
    f1: float
    add: float
    rem: float
    page: str = ""


@dataclass(frozen=True)
class About:
    """What is said of a matching result on all of its pages.

    facts: label and words. matched_split and held_out_split: where latents were chosen and judged. k: how
    many latents of a coalition count. pairs: whether there are pairs of images.
    """

    key: str
    facts: tuple[tuple[str, str], ...]
    matched_split: str
    held_out_split: str
    k: int
    pairs: bool


@dataclass(frozen=True)
class AttributeView:
    """All that the page of one attribute shows.

    misses: held-out images with the attribute on which no latent of the coalition fires, `n_misses` in all.
    perturbed: None where there are no pairs.
    """

    row: AttributeRow
    steps: tuple[Step, ...]
    latents: tuple[LatentExamples, ...]
    misses: tuple[Picture, ...]
    n_misses: int
    perturbed: Perturbed | None


def attribute_page(view: AttributeView, about: About) -> str:
    """Return one attribute's page: HTML that needs no other file and no network, all text escaped."""
    return _environment().get_template("attribute.html").render(view=view, row=view.row, about=about)


def index_page(rows: Sequence[AttributeRow], about: About) -> str:
    """Return the list of all attributes, the best F1 first, ties in the dataset's order."""
    ordered = sorted(rows, key=lambda row: -row.f1)
    mean = sum(row.f1 for row in rows) / len(rows) if rows else float("nan")
    return _environment().get_template("attributes.html").render(rows=ordered, about=about, mean=mean)


def page_name(column: int, name: str) -> str:
    """Return the file name of an attribute's page: its column makes it unique, its name readable."""
    words = "".join(c if c.isascii() and c.isalnum() else " " for c in name.lower()).split()
    slug = "-".join(words)[:SLUG_LENGTH].strip("-")
    return f"{column:04d}-{slug}.html" if slug else f"{column:04d}.html"


def change_words(delta: float, adds: bool, empty: bool) -> str:
    """Say what a change of an attribute's latents means, given that the attribute was added or removed."""
    if isnan(delta):
        return "left out of the score"
    if empty:
        return "no latent to judge by: counts as 0"
    if delta == 0:
        return "no change"
    how = "as they should" if (delta > 0) == adds else "the wrong way"
    return f"latents {'came on' if delta > 0 else 'went off'}, {how}"


@cache
def _environment() -> "Environment":
    found = environment()
    found.filters |= {"score": _score, "signed": _signed, "share": _share, "counted": _counted}
    found.globals["change_words"] = change_words
    return found


def _score(value: float) -> str:
    return MISSING if isnan(value) else f"{value:.3f}"


def _signed(value: float) -> str:
    if isnan(value):
        return MISSING
    rounded = round(value, 2)
    return f"{rounded:+.2f}".replace("-", MINUS) if rounded else "0.00"


def _share(part: int, whole: int) -> str:
    return MISSING if whole == 0 else f"{100 * part / whole:.0f}%"


def _counted(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"
