"""One sheet of a unit's images: a block of the most active, a block of random ones."""

import io
from collections.abc import Sequence
from math import ceil, isqrt

from PIL import Image, ImageDraw, ImageFont

LAYOUT = 1
"""Enters the identity of a request: raise it with any change of what the sheet looks like."""

HEADINGS = ("MOST ACTIVE", "RANDOM")
GAP = 6
FONT_SCALE = 3
HEADING_WIDTH, HEADING_HEIGHT = 66 * FONT_SCALE, 12 * FONT_SCALE
PAPER, INK = "white", "black"


def draw_sheet(top: Sequence[Image.Image], random: Sequence[Image.Image], cell: int) -> bytes:
    """Return a PNG of both groups, each image fitted into cell x cell pixels, under their headings.

    Both blocks have as many columns as the larger group needs to be about square, and the sheet is never
    narrower than a heading. A group without images has no heading. The pixels depend on the images alone.
    Raises ValueError for no image.
    """
    groups = [(name, images) for name, images in zip(HEADINGS, (top, random), strict=True) if images]
    if not groups:
        raise ValueError("no image to draw")
    columns = _columns(max(len(images) for _, images in groups))
    width, height = sheet_size(len(top), len(random), cell)
    sheet = Image.new("RGB", (width, height), PAPER)
    down = GAP
    for name, images in groups:
        sheet.paste(_heading(name), (GAP, down))
        down += HEADING_HEIGHT
        for number, image in enumerate(images):
            row, column = divmod(number, columns)
            _paste(sheet, image, GAP + column * (cell + GAP), down + row * (cell + GAP), cell)
        down += ceil(len(images) / columns) * (cell + GAP)
    stream = io.BytesIO()
    sheet.save(stream, format="PNG", compress_level=6)
    return stream.getvalue()


def sheet_size(n_top: int, n_random: int, cell: int) -> tuple[int, int]:
    """Return width and height of a sheet in pixels."""
    columns = _columns(max(n_top, n_random))
    blocks = [HEADING_HEIGHT + ceil(n / columns) * (cell + GAP) for n in (n_top, n_random) if n]
    return max(GAP + columns * (cell + GAP), HEADING_WIDTH + 2 * GAP), GAP + sum(blocks)


def _columns(n: int) -> int:
    return isqrt(max(n, 1) - 1) + 1


def _paste(sheet: Image.Image, image: Image.Image, left: int, top: int, cell: int) -> None:
    """Scale an image into its cell, keeping its shape."""
    scale = cell / max(image.size)
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    resized = image.convert("RGB").resize(size, Image.Resampling.BICUBIC)
    sheet.paste(resized, (left + (cell - size[0]) // 2, top + (cell - size[1]) // 2))


def _heading(text: str) -> Image.Image:
    """Write in Pillow's bitmap font, which no font library renders, and enlarge it."""
    font = ImageFont.load_default_imagefont()
    small = Image.new("RGB", (HEADING_WIDTH // FONT_SCALE, HEADING_HEIGHT // FONT_SCALE), PAPER)
    ImageDraw.Draw(small).text((0, 0), text, fill=INK, font=font)
    return small.resize((HEADING_WIDTH, HEADING_HEIGHT), Image.Resampling.NEAREST)
