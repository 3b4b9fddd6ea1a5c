import pytest

from pipeline.datasets.coco_masks import has_pixel
from pipeline.errors import AssayError

BOX = (1.0, 1.0, 1.0, 1.0)
COVERED = [  # outlines that pycocotools 2.0.11 fills with one pixel of an image of 6 x 8
    [2.62, 3.89, 2.63, 3.37, 1.35, 3.47],
    [3.74, 4.27, 3.11, 4.46, 2.44, 5.35, 3.59, 4.69, 3.88, 4.22],
    [4.95, 5.18, 3.77, 5.3, 4.34, 4.36],
    [4.03, 3.32, 5.31, 2.68, 4.01, 4.45],
]
EMPTY = [  # and with none, though two of them are larger
    [4.2, 3.44, 2.92, 3.79, 3.91, 4.37, 3.52, 2.56, 1.96, 2.82],
    [4.49, 4.36, 3.91, 5.4, 4.28, 3.74, 3.66, 4.11, 3.59, 3.01],
    [4.17, 4.96, 4.62, 4.23, 3.47, 4.85, 4.94, 5.23],
    [3.97, 3.31, 4.17, 2.38, 4.74, 1.94],
]


@pytest.mark.parametrize(("polygons", "expected"), [(COVERED, True), (EMPTY, False)])
def test_polygons_are_filled_as_pycocotools_fills_them(polygons, expected):
    assert [has_pixel([polygon], BOX, 6, 8, "x") for polygon in polygons] == [expected] * 4


def test_one_polygon_with_a_pixel_is_enough_and_one_outside_the_image_is_none():
    assert has_pixel([EMPTY[0], COVERED[0]], BOX, 6, 8, "x")
    assert not has_pixel([[20.0, 1.0, 25.0, 1.0, 25.0, 5.0]], BOX, 6, 8, "x")


def test_run_lengths_begin_outside():
    assert has_pixel({"counts": [0, 48]}, BOX, 6, 8, "x")
    assert not has_pixel({"counts": [20, 0, 28]}, BOX, 6, 8, "x")


@pytest.mark.parametrize(
    ("box", "expected"),
    [((7.5, 5.5, 9, 9), True), ((8.0, 1, 3, 3), False), ((1, -4, 2, 3.5), False), ((1, -4, 2, 4.5), True)],
)
def test_without_a_segmentation_the_box_inside_the_image_is_the_mask(box, expected):
    assert has_pixel([], box, 6, 8, "x") == has_pixel(None, box, 6, 8, "x") == expected


def test_a_polygon_of_two_points_and_compressed_run_lengths_are_named():
    with pytest.raises(AssayError, match=r"here: a polygon of 4 numbers"):
        has_pixel([[1.0, 1.0, 2.0, 2.0]], BOX, 6, 8, "here")
    with pytest.raises(AssayError, match=r"here: its segmentation is neither"):
        has_pixel({"counts": "Xq5"}, BOX, 6, 8, "here")
