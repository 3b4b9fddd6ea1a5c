"""One question about one image, as a model reads it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from PIL import Image

from pipeline.errors import AssayError

Ints = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class Prepared:
    """The prompt's L tokens, of which m are visual and n are the question's.

    canvas: the image after the model's own resizing and before its normalisation, RGB; footprints (m, 4):
    left, top, right, bottom of each visual token on the canvas, in pixels, row by row; grid: rows and columns
    of visual tokens; input_ids (L,): the prompt without the answer; image_positions (m,) and query_positions
    (n,): where in it the visual tokens and the question's tokens are; tokens: the n tokens as text; extra:
    what one model wants beside. Raises AssayError where these contradict each other.
    """

    question: str
    canvas: Image.Image
    footprints: Ints
    grid: tuple[int, int]
    input_ids: Ints
    image_positions: Ints
    query_positions: Ints
    tokens: tuple[str, ...]
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        m, n = len(self.image_positions), len(self.query_positions)
        rows, columns = self.grid
        if rows * columns != m or self.footprints.shape != (m, 4):
            raise AssayError(
                f"the prompt has {m} visual tokens, but the image is a grid of {rows} x {columns} with "
                f"{len(self.footprints)} footprints; the processor's files do not fit the model's"
            )
        if n == 0:
            raise AssayError(f"question={self.question!r} has no token of its own; ask something")
        if len(self.tokens) != n:
            raise AssayError(f"question={self.question!r}: {n} positions, but {len(self.tokens)} tokens")
        width, height = self.canvas.size
        low, high = self.footprints.min(axis=0), self.footprints.max(axis=0)
        if low.min() < 0 or high[2] > width or high[3] > height:
            raise AssayError(f"footprints up to {high[2:].tolist()} leave the canvas of {width} x {height}")

    @property
    def n_patches(self) -> int:
        """m, the number of visual tokens."""
        return len(self.image_positions)

    @property
    def n_tokens(self) -> int:
        """n, the number of the question's tokens."""
        return len(self.query_positions)


def grid_footprints(rows: int, columns: int, side: int) -> Ints:
    """Return (rows * columns, 4) int64: left, top, right, bottom of squares of `side` pixels, row by row."""
    top, left = np.divmod(np.arange(rows * columns, dtype=np.int64), columns)
    return np.stack([left, top, left + 1, top + 1], axis=1) * side
