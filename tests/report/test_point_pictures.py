"""The picture of a point's W&B run: what it shows, that it is small, and when there is none."""

from math import nan
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from pipeline.report.point_pictures import draw_attributes, draw_samples, draw_units
from pipeline.report.vlm_pixels import AGAINST, FOR, heated
from tests.report.report_examples import crowd_scores, gallery

SCORES = crowd_scores({"csv": 0.3})
SMALL = 200_000
"""Bytes of a picture."""


def size(path: Path) -> tuple[int, int]:
    assert path.stat().st_size < SMALL
    with Image.open(path) as image:
        return image.size


def test_units_have_a_row_each_and_six_are_enough(tmp_path: Path) -> None:
    path = tmp_path / "units.jpg"
    sizes = []
    for n_units in (1, 6, 24):
        assert draw_units(gallery(units=range(n_units), n=6), crowd_scores({"csv": 0.3}, n_units=24), path)
        sizes.append(size(path))
    one, six, many = sizes
    assert one[1] < six[1] == many[1] <= 6 * one[1]
    assert one[0] == six[0]


@pytest.mark.parametrize(
    "pictures", [gallery(units=(), n=6).reindex(columns=gallery().columns), gallery(n=3)]
)
def test_without_units_that_have_images_there_is_no_picture(pictures: pd.DataFrame, tmp_path: Path) -> None:
    path = tmp_path / "units.jpg"
    assert not draw_units(pictures, SCORES, path)
    assert not path.exists()


def test_a_unit_without_a_score_or_text_is_drawn_all_the_same(tmp_path: Path) -> None:
    lacking = SCORES.assign(estimate=nan, description="")
    assert draw_units(gallery(n=6), lacking, tmp_path / "units.jpg")
    assert not draw_units(gallery(n=6), lacking[lacking["unit"] > 5], tmp_path / "none.jpg")


def test_a_map_colours_the_patches_that_speak_for_and_against() -> None:
    canvas = Image.new("RGB", (4, 2), "white")
    image = heated(canvas, [1.0, 0.0, -1.0, 0.0, 0.0, 0.0, 0.0, 0.0], (2, 4))
    mixed = [tuple(round(0.2 * 255 + 0.8 * channel) for channel in colour) for colour in (FOR, AGAINST)]
    assert np.abs(np.subtract([image.getpixel((0, 0)), image.getpixel((2, 0))], mixed)).max() <= 1
    assert image.getpixel((1, 0)) == (255, 255, 255)
    assert image.size == canvas.size


def samples(n: int) -> pd.DataFrame:
    maps: list[object] = [np.linspace(-1, 1, 4) for _ in range(n)]
    maps[0] = None  # the explainer failed
    told = {
        "question": "is there a " + "very " * 40 + "red circle ?",
        "answer": "no",
        "f": [nan] + [0.1] * (n - 1),
    }
    return pd.DataFrame({**told, "rows": 2, "columns": 2, "patches": maps})


def test_samples_are_bounded_and_one_that_failed_is_shown_unmarked(tmp_path: Path) -> None:
    canvas = tmp_path / "canvas.png"
    Image.new("RGB", (64, 64), "green").save(canvas)
    path = tmp_path / "samples.jpg"
    sizes = []
    for n in (12, 40):
        assert draw_samples(samples(n), [canvas] * n, path)
        sizes.append(size(path))
    assert sizes[0] == sizes[1]
    assert not draw_samples(samples(1).head(0), [], tmp_path / "none.jpg")


def test_attributes_are_bounded_and_those_without_an_f1_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "attributes.png"
    table = pd.DataFrame(
        {"attribute": [f"a{'b' * n}" for n in range(80)], "f1": 0.5, "probe_f1": [nan, *[0.9] * 79]}
    )
    sizes = []
    for n in (40, 80):
        assert draw_attributes(table.head(n), path)
        sizes.append(size(path))
    assert sizes[0] == sizes[1]
    assert not draw_attributes(table.assign(f1=nan), tmp_path / "none.png")
