"""One picture of a point for its W&B run: what units, samples or attributes look like under it.

Each is bounded, so that a sweep's runs stay small: UNITS x TOP images, SAMPLES samples, ATTRIBUTES bars.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from PIL import Image, ImageDraw, ImageFont

from pipeline.datasets.decoding import opened_image
from pipeline.files import replacing
from pipeline.report.inspection import GAP, INK, PAPER, contact_sheet
from pipeline.report.vlm_pixels import heated

UNITS, TOP = 6, 5
SAMPLES, A_ROW = 12, 6
ATTRIBUTES = 40
NAMES, SCALE, ROW, FONT_SIZE = 180, 360, 18, 12
"""Pixels of the names of attributes, of an F1 of 1, of a row and of a letter."""
BAR, PROBE = "#0072B2", "#D55E00"
LONGEST = 60
"""Letters of a text in a caption."""


def draw_units(gallery: pd.DataFrame, scores: pd.DataFrame, path: Path) -> bool:
    """Draw a row a unit, its TOP most active images under its text and score; False where there is none.

    gallery: as the gallery stage writes it. scores: method, unit, description, estimate. Units come in the
    gallery's order; those that no method of `scores` has, or without TOP images, are left out.
    """
    texts = {unit: _said(rows) for unit, rows in scores.groupby("unit")}
    top = gallery[(gallery["kind"] == "top") & gallery["unit"].isin(list(texts))].sort_values(
        "rank", kind="stable"
    )
    whole = [(unit, rows.head(TOP)) for unit, rows in top.groupby("unit", sort=False) if len(rows) >= TOP]
    images, captions = [], []
    order = list(dict.fromkeys(gallery["unit"]))
    for unit, rows in sorted(whole, key=lambda pair: order.index(pair[0]))[:UNITS]:
        images += [_read(content) for content in rows["jpeg"]]
        captions += [f"unit {unit}: {texts[unit]}", *[""] * (TOP - 1)]
    return _sheet(images, captions, path, TOP)


def draw_samples(samples: pd.DataFrame, canvases: Sequence[Path], path: Path) -> bool:
    """Draw the first SAMPLES samples with what the explainer marks; False where there is none.

    samples: question, answer, f, patches (scores, as many as rows x columns), rows, columns; canvases: what
    the model saw, in the same order.
    """
    shown = list(zip(samples.to_dict("records"), canvases, strict=True))[:SAMPLES]
    images = [_marked(row, canvas) for row, canvas in shown]
    return _sheet(images, [_asked(row) for row, _ in shown], path, A_ROW)


def draw_attributes(attributes: pd.DataFrame, path: Path) -> bool:
    """Draw each attribute's held-out F1 as a bar, highest first, with its linear probe; False for none.

    attributes: attribute, f1, probe_f1 (NaN where it was not computed). At most the ATTRIBUTES highest.
    """
    known = attributes[attributes["f1"].notna()].sort_values("f1", ascending=False, kind="stable")
    shown = known.head(ATTRIBUTES)
    if shown.empty:
        return False
    font = ImageFont.load_default(FONT_SIZE)
    title = f"F1 on held-out images, {len(shown)} of {len(attributes)} attributes (line: linear probe)"
    sheet = Image.new("RGB", (NAMES + SCALE + 6 * GAP, (len(shown) + 2) * ROW), PAPER)
    draw = ImageDraw.Draw(sheet)
    draw.text((GAP, GAP), title, fill=INK, font=font)
    bars = zip(shown["attribute"], shown["f1"], shown["probe_f1"], strict=True)
    for place, (name, f1, probe) in enumerate(bars, start=1):
        top, end = GAP + place * ROW, NAMES + SCALE * f1
        draw.text((GAP, top), _fitted(str(name), font), fill=INK, font=font)
        draw.rectangle((NAMES, top + 2, end, top + ROW - 4), fill=BAR)
        draw.text((NAMES + SCALE + GAP, top), f"{f1:.2f}", fill=INK, font=font)
        if not pd.isna(probe):
            draw.line((NAMES + SCALE * probe, top, NAMES + SCALE * probe, top + ROW - 2), fill=PROBE, width=2)
    with replacing(path) as temporary:
        sheet.save(temporary, optimize=True)
    return True


def _fitted(name: str, font: ImageFont.FreeTypeFont | ImageFont.ImageFont) -> str:
    """Return as much of a name as fits beside the bars."""
    while font.getlength(name) > NAMES - 2 * GAP:
        name = name[:-1]
    return name


def _said(rows: pd.DataFrame) -> str:
    """Return a unit's first text with its score."""
    row = rows.iloc[0]
    score = "no score" if pd.isna(row["estimate"]) else f"{row['estimate']:.3f}"
    return f"{_short(str(row['description']) or 'no text')} ({score})"


def _read(source: bytes | Path) -> Image.Image:
    with opened_image(source) as image:
        return image.convert("RGB")


def _marked(row: dict[Any, Any], canvas: Path) -> Image.Image:
    image = _read(canvas)
    if row["patches"] is None:
        return image
    return heated(image, row["patches"], (int(row["rows"]), int(row["columns"])))


def _asked(row: dict[Any, Any]) -> str:
    score = "no F" if pd.isna(row["f"]) else f"F {row['f']:.3f}"
    return f"{_short(str(row['question']))}\n{_short(str(row['answer']))} ({score})"


def _short(words: str) -> str:
    return words if len(words) <= LONGEST else words[: LONGEST - 3] + "..."


def _sheet(images: Sequence[Image.Image], captions: Sequence[str], path: Path, columns: int) -> bool:
    if images:
        with replacing(path) as temporary:
            contact_sheet(images, captions, columns).save(temporary)
    return bool(images)
