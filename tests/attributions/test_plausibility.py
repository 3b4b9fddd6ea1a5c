"""Pointing game and IoU on grids where the answer is counted by hand, and against pixels."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.attributions.plausibility import covered, iou, pointing_chance, pointing_game
from pipeline.errors import AssayError
from pipeline.vlms.prepared import grid_footprints

FOOTPRINTS = grid_footprints(2, 3, 4)
MASK = np.zeros((8, 12), dtype=bool)
MASK[0:4, 4:8] = True
MASK[4, 4] = True


def test_pixels_of_the_object_are_counted_a_patch() -> None:
    assert covered(FOOTPRINTS, MASK).tolist() == [0, 16, 0, 0, 1, 0]


@pytest.mark.parametrize(
    ("scores", "expected"), [([0, 9, 0, 0, 0, 0], 1), ([9, 8, 8, 8, 8, 8], 0), ([5, 5, 1, 1, 5, 1], 2 / 3)]
)
def test_the_highest_patch_points(scores: list[float], expected: float) -> None:
    assert pointing_game(np.array(scores, dtype=float), FOOTPRINTS, MASK) == expected


def test_a_constant_map_points_by_chance() -> None:
    assert pointing_game(np.zeros(6), FOOTPRINTS, MASK) == pointing_chance(FOOTPRINTS, MASK) == 2 / 6


def test_iou_by_hand() -> None:
    best = np.array([0, 2, 0, 0, 1, 0.0])
    # 16 pixels of patch 1 and one sixteenth of patch 4, of whose pixels one is the object's.
    inside = 16 + 1 / 16
    assert iou(best, FOOTPRINTS, MASK) == pytest.approx(inside / (34 - inside))
    assert iou(-best, FOOTPRINTS, MASK) == 0
    everywhere = 17 * 17 / 96
    assert iou(np.ones(6), FOOTPRINTS, MASK) == pytest.approx(everywhere / (34 - everywhere))


@given(st.permutations(range(6)), st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_iou_is_that_of_pixels_where_the_object_has_the_area_of_whole_patches(
    ranks: list[int], seed: int
) -> None:
    mask = np.zeros(96, dtype=bool)
    mask[np.random.default_rng(seed).choice(96, 16 * (1 + seed % 5), replace=False)] = True
    mask = mask.reshape(8, 12)
    chosen = np.zeros((8, 12), dtype=bool)
    for patch in np.argsort(ranks)[::-1][: mask.sum() // 16]:
        left, top, right, bottom = FOOTPRINTS[patch]
        chosen[top:bottom, left:right] = True
    expected = (chosen & mask).sum() / (chosen | mask).sum()
    assert iou(np.array(ranks, dtype=float), FOOTPRINTS, mask) == pytest.approx(expected)


@given(st.lists(st.integers(0, 3), min_size=6, max_size=6), st.permutations(range(6)), st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_neither_depends_on_the_order_of_patches_nor_on_the_scale(
    scores: list[int], order: list[int], seed: int
) -> None:
    mask = np.random.default_rng(seed).random((8, 12)) < 0.3
    values = np.array(scores, dtype=float)
    for measure in (iou, pointing_game):
        here = measure(values, FOOTPRINTS, mask)
        assert measure(3 * values[order] - 7, FOOTPRINTS[order], mask) == pytest.approx(here)
        assert 0 <= here <= 1


def test_without_an_object_there_is_nothing_to_hit() -> None:
    empty = np.zeros((8, 12), dtype=bool)
    measured = [measure(np.ones(6), FOOTPRINTS, empty) for measure in (pointing_game, iou)]
    assert all(math.isnan(each) for each in [*measured, pointing_chance(FOOTPRINTS, empty)])


def test_a_mask_of_another_size_or_kind_and_a_map_with_nan_are_refused() -> None:
    with pytest.raises(AssayError, match="footprints reach 12 x 8 pixels, the object mask 8 x 8"):
        iou(np.ones(6), FOOTPRINTS, MASK[:, :8])
    with pytest.raises(AssayError, match="must be bool"):
        pointing_game(np.ones(6), FOOTPRINTS, MASK.astype(float))
    with pytest.raises(AssayError, match="patch 2 has a score that is not finite"):
        iou(np.array([1, 2, np.nan, 4, 5, 6]), FOOTPRINTS, MASK)
    with pytest.raises(ValueError, match="for 6 patches"):
        iou(np.ones(5), FOOTPRINTS, MASK)
