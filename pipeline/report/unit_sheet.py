"""A unit as one picture: its facts, texts and scores in words above its images."""

import textwrap
from collections.abc import Iterator
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from pipeline.files import replacing
from pipeline.report.inspection import GAP, INK, PAPER, contact_sheet
from pipeline.report.unit_page import (
    MINUS,
    About,
    Picture,
    Text,
    UnitView,
    deviations,
    interval_text,
    number,
    score_text,
)

COLUMNS, FONT_SIZE, LINE = 8, 14, 19
LETTER_WIDTH, MIN_WIDTH = 7.5, 680
"""Pixels: what a letter of that font size takes at most on average, and how wide a sheet is at least."""


def unit_sheet(view: UnitView, about: About, images: dict[str, Image.Image], path: Path) -> None:
    """Write a unit's top, median and random images in that order, under its facts, texts and scores.

    images: by image id. The format follows the path's suffix.
    """
    pictures = [(group.kind, picture) for group in view.groups for picture in group.pictures]
    shown = [images[picture.image_id] for _, picture in pictures]
    sheet = contact_sheet(shown, [_caption(kind, picture) for kind, picture in pictures], COLUMNS)
    with replacing(path) as temporary:
        _with_header(sheet, list(_lines(view, about))).save(temporary)


def _with_header(sheet: Image.Image, lines: list[str]) -> Image.Image:
    width = max(sheet.width, MIN_WIDTH)
    letters = int((width - 2 * GAP) / LETTER_WIDTH)
    wrapped = [piece for line in lines for piece in textwrap.wrap(line, letters, subsequent_indent="    ")]
    top = 2 * GAP + LINE * len(wrapped)
    joined = Image.new("RGB", (width, top + sheet.height), PAPER)
    draw = ImageDraw.Draw(joined)
    font = ImageFont.load_default(FONT_SIZE)
    for place, text in enumerate(wrapped):
        draw.text((GAP, GAP + place * LINE), _plain(text), fill=INK, font=font)
    joined.paste(sheet, (0, top))
    return joined


def _lines(view: UnitView, about: About) -> Iterator[str]:
    facts = view.facts
    yield about.name(view.unit) + (f", {about.place}" if about.place else "") + f" ({about.key})"
    if facts.constant:
        yield f"On {about.images}: it has one activation on these images, {number(facts.maximum)}"
    else:
        shown = {"mean": facts.mean, "sd": facts.sd, "maximum": facts.maximum}
        numbers = ", ".join(f"{name} {number(value)}" for name, value in shown.items())
        yield f"On {about.images}: {numbers}, {100 * facts.positive_share:.1f}% above 0"
    if facts.flags:
        yield ", ".join(facts.flags)
    if not view.judged:
        yield "Not judged: no method was asked to explain it."
    for text in view.texts:
        yield from _of_text(text)


def _of_text(text: Text) -> Iterator[str]:
    name = f"{text.method} ({text.settings})" if text.settings else text.method
    yield f"{text.letter}  {name}: {text.description}" if text.letter else f"{name}: no text, {text.reason}"
    for score in text.scores:
        interval = interval_text(score)
        told = f"{score_text(score.estimate)}" + (f" ({interval})" if interval != "none" else "")
        how = f"{score.by}; {score.settings}" if score.settings else score.by
        yield f"      {told}  {how}" + (f"  [{', '.join(score.remarks)}]" if score.remarks else "")


def _caption(kind: str, picture: Picture) -> str:
    said = "\n".join(f"{said.letter} {said.words}" for said in picture.said)
    shown = f"{kind} {number(picture.activation)} ({deviations(picture.standardised)})\n{picture.image_id}"
    return _plain(f"{shown}\n{said}" if said else shown)


def _plain(text: str) -> str:
    """Return a text whose minus signs the built-in font has."""
    return text.replace(MINUS, "-")
