"""Whether the mask of a COCO annotation covers a pixel at all."""

from collections.abc import Sequence
from math import ceil, floor
from typing import Any

import numpy as np

from pipeline.errors import AssayError

SCALE = 5
"""Steps a pixel at which COCO's own rasteriser walks along a polygon."""

Box = tuple[float, float, float, float]
Polygon = Sequence[float] | np.ndarray


def has_pixel(segmentation: Any, box: Box, height: int, width: int, place: str) -> bool:
    """Return whether a mask has a pixel in an image of `height` x `width`.

    Polygons follow the rule of pycocotools (a column of pixels is inside between the crossings of the
    outline with its centre line, walked at a fifth of a pixel), run lengths are counts of pixels that
    begin with those outside, and without any segmentation the box (x, y, width, height) is the mask.
    Raises AssayError, with `place`, for another form.
    """
    if segmentation is None or len(segmentation) == 0:
        x, y, w, h = box
        columns = min(width, ceil(x + w)) - max(0, floor(x))
        return columns > 0 and min(height, ceil(y + h)) > max(0, floor(y))
    if isinstance(segmentation, list) and all(isinstance(each, list | np.ndarray) for each in segmentation):
        return any(_polygon_has_pixel(each, height, width, place) for each in segmentation)
    counts = segmentation.get("counts") if isinstance(segmentation, dict) else None
    if isinstance(counts, list):
        return any(count > 0 for count in counts[1::2])
    raise AssayError(f"{place}: its segmentation is neither a list of polygons nor run lengths as a list")


def _polygon_has_pixel(polygon: Polygon, height: int, width: int, place: str) -> bool:
    if len(polygon) < 6 or len(polygon) % 2:
        raise AssayError(f"{place}: a polygon of {len(polygon)} numbers is not three points (x, y) or more")
    corners = (SCALE * np.asarray(polygon, dtype=np.float64).reshape(-1, 2) + 0.5).astype(np.int64)
    ends = np.roll(corners, -1, axis=0)
    middle = np.clip((corners[:, 0].min() + corners[:, 0].max()) // (2 * SCALE), 0, width - 1)
    left, right = np.minimum(corners[:, 0], ends[:, 0]), np.maximum(corners[:, 0], ends[:, 0])
    over = (left <= SCALE * middle + SCALE // 2) & (right > SCALE * middle + SCALE // 2)
    column, row = _crossings(corners[over], ends[over], height, width)
    if _has_run(row[column == middle], height):
        return True  # one column of pixels settles it for most
    column, row = _crossings(corners, ends, height, width)
    return _has_run(column * height + row, height * width)


def _has_run(crossings: np.ndarray, end: int) -> bool:
    """Return whether anything lies between the first and second crossing, the third and fourth, and so on."""
    ordered = [*sorted(crossings.tolist()), end]
    return any(last > first for first, last in zip(ordered[::2], ordered[1::2], strict=False))


def _crossings(
    starts: np.ndarray, ends: np.ndarray, height: int, width: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return columns and rows where edges cross the centre lines of the pixel columns."""
    points, edge = _walked(starts, ends)
    before, after = points[:-1], points[1:]
    moved = (before[:, 0] != after[:, 0]) & (edge[:-1] == edge[1:])
    column = (np.minimum(before[:, 0], after[:, 0]) + 0.5) / SCALE - 0.5
    row = np.ceil(np.clip((np.minimum(before[:, 1], after[:, 1]) + 0.5) / SCALE - 0.5, 0, height))
    on_line = moved & (np.floor(column) == column) & (column >= 0) & (column <= width - 1)
    return column[on_line].astype(np.int64), row[on_line].astype(np.int64)


def _walked(starts: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return grid points (S, 2) along edges, one a step along each longer side, and their edges (S,).

    An edge is walked from its lower end on that side and turned round afterwards, so that an edge and its
    reverse have the same points.
    """
    along = (np.abs(ends - starts)[:, 0] < np.abs(ends - starts)[:, 1]).astype(np.int64)
    edge = np.arange(len(starts))
    turned = starts[edge, along] > ends[edge, along]
    low = np.where(turned[:, None], ends, starts)
    high = np.where(turned[:, None], starts, ends)
    n_steps = (high - low)[edge, along]
    slope = (high - low)[edge, 1 - along] / np.maximum(n_steps, 1)
    of = np.repeat(edge, n_steps + 1)
    step = np.arange(len(of)) - np.repeat(np.cumsum(n_steps + 1) - (n_steps + 1), n_steps + 1)
    step = np.where(turned[of], n_steps[of] - step, step)
    points = np.empty((len(of), 2), dtype=np.int64)
    rows = np.arange(len(of))
    points[rows, along[of]] = low[edge, along][of] + step
    points[rows, 1 - along[of]] = np.trunc(low[edge, 1 - along][of] + slope[of] * step + 0.5)
    return points, of
