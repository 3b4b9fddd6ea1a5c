"""Contact sheets: where an image lies on the sheet and what bad input does."""

import pytest
from PIL import Image

from pipeline.report.inspection import CELL, GAP, LINE, contact_sheet


def middle(number: int, columns: int, row_height: int) -> tuple[int, int]:
    row, column = divmod(number, columns)
    return GAP + column * (CELL + GAP) + CELL // 2, GAP + row * row_height + CELL // 2


def test_images_lie_in_reading_order() -> None:
    colours = [(200, 0, 0), (0, 200, 0), (0, 0, 200), (90, 90, 0), (0, 90, 90)]
    images = [Image.new("RGB", (64, 64), colour) for colour in colours]
    sheet = contact_sheet(images, [f"{i}" for i in range(5)], 3)
    row_height = CELL + LINE + GAP
    assert sheet.size == (3 * (CELL + GAP) + GAP, 2 * row_height + GAP)
    assert [sheet.getpixel(middle(i, 3, row_height)) for i in range(5)] == colours
    assert sheet.getpixel(middle(5, 3, row_height)) == (255, 255, 255)


def test_a_wide_image_keeps_its_shape_and_transparency_shows_the_paper() -> None:
    wide = Image.new("L", (100, 20), 0)
    clear = Image.new("RGBA", (10, 10), (0, 0, 0, 0))
    sheet = contact_sheet([wide, clear], ["", ""], 2).convert("L")
    x, y = middle(0, 2, 0)
    assert sheet.getpixel((x, y)) == 0
    assert sheet.getpixel((x, y - CELL // 4)) == 255
    assert sheet.getpixel(middle(1, 2, 0)) == 255


def test_a_long_caption_makes_its_row_higher_and_stays_in_its_column() -> None:
    image = Image.new("RGB", (8, 8), "white")
    captions = ["activation 3.21 a very long caption that needs several lines " + "x" * 80, ""]
    sheet = contact_sheet([image, image], captions, 2).convert("L")
    assert sheet.height > GAP + CELL + 3 * LINE
    assert min(sheet.crop((0, 0, GAP + CELL, sheet.height)).tobytes()) < 128
    assert min(sheet.crop((GAP + CELL + 2, 0, sheet.width, sheet.height)).tobytes()) == 255


@pytest.mark.parametrize(("n_images", "n_captions", "columns"), [(0, 0, 3), (2, 1, 3), (1, 1, 0)])
def test_input_that_cannot_be_laid_out_is_refused(n_images: int, n_captions: int, columns: int) -> None:
    with pytest.raises(ValueError, match="nothing to lay out"):
        contact_sheet([Image.new("RGB", (4, 4))] * n_images, [""] * n_captions, columns)
