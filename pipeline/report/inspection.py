"""Sheets of images with captions, to look at what a unit responds to."""

from collections.abc import Sequence

from PIL import Image, ImageDraw, ImageFont

CELL, GAP, LINE, FONT_SIZE = 160, 8, 15, 12
PAPER, INK = "white", "#202020"


def contact_sheet(images: Sequence[Image.Image], captions: Sequence[str], columns: int) -> Image.Image:
    """Return images in reading order, `columns` a row, each fitted into 160 x 160 px over its caption.

    Captions wrap at the cell's width and every row is as high as its longest caption. Raises ValueError for
    no image, another number of captions, columns < 1.
    """
    if not images or len(images) != len(captions) or columns < 1:
        raise ValueError(
            f"{len(images)} images, {len(captions)} captions, {columns} columns: nothing to lay out"
        )
    font = ImageFont.load_default(FONT_SIZE)
    wrapped = [_wrap(caption, font) for caption in captions]
    starts = range(0, len(images), columns)
    heights = [CELL + LINE * max(len(lines) for lines in wrapped[i : i + columns]) + GAP for i in starts]
    width = min(columns, len(images)) * (CELL + GAP) + GAP
    sheet = Image.new("RGB", (width, sum(heights) + GAP), PAPER)
    draw = ImageDraw.Draw(sheet)
    for number, (image, lines) in enumerate(zip(images, wrapped, strict=True)):
        row, column = divmod(number, columns)
        left, top = GAP + column * (CELL + GAP), GAP + sum(heights[:row])
        _paste(sheet, image, left, top)
        draw.multiline_text(
            (left, top + CELL), "\n".join(lines), fill=INK, font=font, spacing=LINE - FONT_SIZE
        )
    return sheet


def _paste(sheet: Image.Image, image: Image.Image, left: int, top: int) -> None:
    """Scale the image into its cell, keeping its shape; transparent pixels show the paper."""
    scale = CELL / max(image.size)
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    resized = image.convert("RGBA").resize(size, Image.Resampling.BICUBIC)
    place = (left + (CELL - size[0]) // 2, top + (CELL - size[1]) // 2)
    sheet.paste(resized, place, mask=resized)


def _wrap(caption: str, font: ImageFont.FreeTypeFont | ImageFont.ImageFont) -> list[str]:
    """Break a caption into lines that fit the cell; a word too long for a line is cut."""
    lines: list[str] = []
    for paragraph in caption.split("\n"):
        line = ""
        for word in paragraph.split():
            longer = f"{line} {word}".strip()
            if font.getlength(longer) <= CELL:
                line = longer
                continue
            lines += [line] if line else []
            line = _cut(word, font)
        lines.append(line)
    return lines


def _cut(word: str, font: ImageFont.FreeTypeFont | ImageFont.ImageFont) -> str:
    while len(word) > 1 and font.getlength(word) > CELL:
        word = word[:-1]
    return word
