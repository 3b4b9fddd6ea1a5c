"""Does a map look where a person would: on the object? Beside faithfulness, not instead of it."""

import math
from typing import Any

import numpy as np

from pipeline.attributions.attribution import Bools, Floats
from pipeline.errors import AssayError

Ints = np.ndarray[Any, np.dtype[np.int64]]


def pointing_game(scores: Floats, footprints: Ints, mask: Bools) -> float:
    """Return 1 where the highest patch touches the object, else 0; of several highest the share that does.

    scores (m,); footprints (m, 4) left, top, right, bottom; mask (H, W), true on the object. A patch touches
    it with one pixel: a map of patches points no finer, which stands for the tolerance of 15 pixels of the
    source. NaN where the mask is empty. Raises AssayError as `covered` does. Source: Zhang et al. 2016, arXiv
    1608.00507.
    """
    scores = _finite(scores, footprints)
    touches = covered(footprints, mask) > 0
    return float(touches[scores == scores.max()].mean()) if touches.any() else math.nan


def pointing_chance(footprints: Ints, mask: Bools) -> float:
    """Return the share of patches that touch the object: what a random map scores; NaN for an empty mask."""
    touches = covered(footprints, mask) > 0
    return float(touches.mean()) if touches.any() else math.nan


def iou(scores: Floats, footprints: Ints, mask: Bools) -> float:
    """Return the intersection over union of the object and the highest patches of the same area.

    No threshold: patches are taken from the highest until their pixels are as many as the mask's. The last
    ones, and those that tie with them, count with the share of them that is still wanted. Patches must not
    overlap. NaN where no patch touches the mask. Raises AssayError as `covered` does.
    """
    scores = _finite(scores, footprints)
    on_object, object_area = covered(footprints, mask), int(mask.sum())
    if not on_object.any():
        return math.nan
    areas = (footprints[:, 2] - footprints[:, 0]) * (footprints[:, 3] - footprints[:, 1])
    selected = intersection = 0.0
    for level in np.unique(scores)[::-1]:
        group = scores == level
        share = min(1.0, (object_area - selected) / float(areas[group].sum()))
        selected += share * float(areas[group].sum())
        intersection += share * float(on_object[group].sum())
        if share < 1:
            break
    return intersection / (selected + object_area - intersection)


def covered(footprints: Ints, mask: Bools) -> Ints:
    """Return how many pixels of the object each patch holds (m,).

    Raises AssayError for a mask that is not bool of (H, W), and for footprints that leave it.
    """
    if mask.ndim != 2 or mask.dtype != bool:
        raise AssayError(f"an object mask {mask.shape} {mask.dtype} must be bool of (height, width)")
    height, width = mask.shape
    left, top, right, bottom = np.asarray(footprints, dtype=np.int64).T
    if min(left.min(), top.min()) < 0 or right.max() > width or bottom.max() > height:
        raise AssayError(
            f"footprints reach {right.max()} x {bottom.max()} pixels, the object mask {width} x {height}; "
            "resize the mask to the model's canvas"
        )
    sums = np.pad(mask.cumsum(axis=0, dtype=np.int64).cumsum(axis=1), ((1, 0), (1, 0)))
    return np.asarray(sums[bottom, right] - sums[top, right] - sums[bottom, left] + sums[top, left])


def _finite(scores: Floats, footprints: Ints) -> Floats:
    scores = np.asarray(scores, dtype=np.float64)
    if scores.shape != (len(footprints),):
        raise ValueError(f"scores {scores.shape} for {len(footprints)} patches")
    if not np.isfinite(scores).all():
        raise AssayError(
            f"patch {int(np.flatnonzero(~np.isfinite(scores))[0])} has a score that is not finite"
        )
    return scores
