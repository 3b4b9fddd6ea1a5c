"""The sheet that a model is shown."""

import hashlib
import io

import numpy as np
import pytest
from PIL import Image

from pipeline.llm.grid import GAP, HEADING_HEIGHT, LAYOUT, draw_sheet, sheet_size

COLOURS = ["red", "green", "blue", "orange", "purple"]


def solid(colour: str, size: tuple[int, int] = (20, 20)) -> Image.Image:
    return Image.new("RGB", size, colour)


def drawn(top: list[Image.Image], random: list[Image.Image], cell: int = 32) -> Image.Image:
    image = Image.open(io.BytesIO(draw_sheet(top, random, cell)))
    assert image.format == "PNG"
    return image


def gradient(width: int, height: int) -> Image.Image:
    ramp = np.add.outer(np.arange(height) * 3, np.arange(width) * 2) % 256
    return Image.fromarray(np.stack([ramp, 255 - ramp, ramp // 2], axis=2).astype(np.uint8))


def test_equal_images_give_equal_bytes():
    images = [gradient(50 + i, 40) for i in range(6)]
    assert draw_sheet(images[:3], images[3:], 64) == draw_sheet(images[:3], images[3:], 64)


def test_what_the_sheet_looks_like_is_part_of_a_questions_identity():
    """Where this fails and the sheet was changed on purpose: raise LAYOUT, then put the new hash here."""
    sheet = drawn([gradient(90, 45), gradient(30, 70)], [gradient(64, 64)], 48)
    pixels = hashlib.sha256(sheet.tobytes()).hexdigest()[:16]
    assert (LAYOUT, sheet.size, pixels) == (1, (210, 186), "801f448955c52ba7")


@pytest.mark.parametrize(("n_top", "n_random", "cell"), [(9, 9, 128), (1, 0, 16), (2, 5, 33), (0, 3, 20)])
def test_a_sheet_has_the_size_that_is_told(n_top, n_random, cell):
    sheet = drawn([solid("red")] * n_top, [solid("blue")] * n_random, cell)
    assert sheet.size == sheet_size(n_top, n_random, cell)


def test_the_default_sheet_is_three_columns_of_two_blocks():
    assert sheet_size(9, 9, 128) == (6 + 3 * 134, 6 + 2 * (36 + 3 * 134))


def test_images_stand_in_reading_order_in_their_own_block():
    cell = 32
    sheet = drawn([solid(c) for c in COLOURS], [solid(c) for c in reversed(COLOURS[:2])], cell)
    block = HEADING_HEIGHT + 2 * (cell + GAP)  # five images in three columns: two rows

    def at(number: int, down: int) -> tuple[int, ...]:
        row, column = divmod(number, 3)
        corner = (GAP + column * (cell + GAP), GAP + down + HEADING_HEIGHT + row * (cell + GAP))
        return sheet.getpixel((corner[0] + cell // 2, corner[1] + cell // 2))

    own = {colour: solid(colour).getpixel((0, 0)) for colour in COLOURS}
    assert [at(i, 0) for i in range(5)] == [own[colour] for colour in COLOURS]
    assert [at(i, block) for i in range(2)] == [own["green"], own["red"]]
    assert at(5, 0) == (255, 255, 255)


def test_each_group_has_its_own_heading():
    def inked(sheet: Image.Image, top: int) -> int:
        band = sheet.crop((0, top, sheet.width - GAP, top + HEADING_HEIGHT)).convert("L")
        return int((np.asarray(band) < 50).sum())

    cell = 16  # narrower than the headings, which stand whole all the same
    both = drawn([solid("red")], [solid("red")], cell)
    second = GAP + HEADING_HEIGHT + cell + GAP
    assert inked(both, GAP) > inked(both, second) > 100  # MOST ACTIVE is longer than RANDOM
    alone = drawn([solid("red")], [], cell)
    assert alone.height < both.height
    assert np.array_equal(np.asarray(alone), np.asarray(both)[: alone.height])


def test_an_image_keeps_its_shape():
    sheet = np.asarray(drawn([solid("red", (40, 10))], [], 32))
    red = np.argwhere((sheet == solid("red").getpixel((0, 0))).all(axis=2))
    height, width = red.max(axis=0) - red.min(axis=0) + 1
    assert (width, height) == (32, 8)


def test_an_extremely_thin_image_and_a_grey_one_are_drawn():
    assert drawn([solid("red", (900, 1)), Image.new("L", (5, 5), 9)], [], 32).mode == "RGB"


def test_no_image_is_no_sheet():
    with pytest.raises(ValueError, match="no image"):
        draw_sheet([], [], 32)
