"""Scenes of coloured shapes on a 4 x 4 grid: layout, pixels, masks."""

import colorsys
import hashlib
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist
from typing import Literal

import numpy as np
from PIL import Image, ImageDraw

from pipeline.datasets.drawing import HUE, OUTLINES, SATURATION, SUPERSAMPLING, VALUE
from pipeline.errors import AssayError
from pipeline.seeds import generator

COLOURS = ("red", "green", "blue", "yellow")
SHAPES = ("circle", "square", "triangle", "cross")
GRID = 4
N_CELLS = GRID * GRID
N_OBJECTS = len(COLOURS) * len(SHAPES)
EMPTY = N_OBJECTS
GROUND = 118
RADIUS = 0.39
SMALLEST = 48
TEST_BYTES = 51
Split = Literal["train", "test"]


@dataclass(frozen=True)
class Scenes:
    """n scenes.

    cells: (n, 16) int64, row by row what each cell of the grid holds: colour x 4 + shape, or EMPTY;
    indices: (n,) int64, the scenes' places in their stream; size: pixels a side.
    """

    cells: np.ndarray
    indices: np.ndarray
    seed: int
    split: Split
    size: int


def scenes(
    n: int, *, seed: int, split: Split, size: int = 64, first: int = 0, fewest: int = 1, most: int = 4
) -> Scenes:
    """Return the scenes `first` to `first + n - 1` of a split, each with `fewest` to `most` objects.

    The number of objects, their cells and what they are are uniform. Scene i depends on (seed, split, fewest,
    most, i) alone. A layout belongs to one split, by a hash of its cells (a fifth of them to test), so the
    splits share no layout whatever the seeds. Raises AssayError for a size that is not a multiple of 4 or is
    below 48, and for numbers of objects that are not 1 <= fewest <= most <= 16.
    """
    _check(size, split, fewest, most)
    indices = np.arange(first, first + n, dtype=np.int64)
    cells = [_layout(seed, split, int(i), fewest, most) for i in indices]
    return Scenes(np.array(cells, np.int64).reshape(n, N_CELLS), indices, seed, split, size)


def images(scenes: Scenes, noise: float = 8.0) -> np.ndarray:
    """Return the scenes' pixels (n, size, size, 3) uint8: hard-edged shapes on grey, with grey noise.

    noise: standard deviation in grey levels, the same in the three channels; 0 for none.
    """
    if not 0 <= noise <= 255:
        raise AssayError(f"shapes_vqa: noise={noise} is no standard deviation of 0 to 255 grey levels")
    canvas = _assembled(_tiles(scenes.size // GRID)[scenes.cells])
    if noise > 0 and len(canvas):
        grain = np.stack([_grain(scenes, int(i), noise) for i in scenes.indices])
        canvas += np.repeat(grain, 3, axis=2).reshape(canvas.shape)
        np.clip(canvas, 0, 255, out=canvas)
    return canvas.astype(np.uint8)


def object_masks(scenes: Scenes) -> np.ndarray:
    """Return (n, 16, size, size) bool: the pixels that the object of each cell paints."""
    n, size = len(scenes.cells), scenes.size
    side = size // GRID
    stencils = _stencils(side)[np.where(scenes.cells == EMPTY, len(SHAPES), scenes.cells % len(SHAPES))]
    masks = np.zeros((n, N_CELLS, size, size), dtype=bool)
    for cell in range(N_CELLS):
        top, left = cell // GRID * side, cell % GRID * side
        masks[:, cell, top : top + side, left : left + side] = stencils[:, cell]
    return masks


def split_of(cells: np.ndarray) -> Split:
    """Return the split that a layout (16,) belongs to."""
    digest = hashlib.sha256(bytes(cells.tolist())).digest()
    return "test" if digest[0] < TEST_BYTES else "train"


def _check(size: int, split: str, fewest: int, most: int) -> None:
    if size < SMALLEST or size % GRID:
        raise AssayError(f"shapes_vqa: size={size} is not a multiple of {GRID} from {SMALLEST} on; 64 is one")
    if split not in ("train", "test"):
        raise AssayError(f"shapes_vqa: split={split!r} is neither train nor test")
    if not 1 <= fewest <= most <= N_CELLS:
        raise AssayError(f"shapes_vqa: fewest={fewest}, most={most} are not 1 <= fewest <= most <= {N_CELLS}")


def _layout(seed: int, split: Split, index: int, fewest: int, most: int) -> np.ndarray:
    rng = generator(seed, "shapes_vqa", split, fewest, most, index)
    n_objects = int(rng.integers(fewest, most + 1))
    while True:
        cells = np.full(N_CELLS, EMPTY)
        cells[rng.permutation(N_CELLS)[:n_objects]] = rng.integers(N_OBJECTS, size=n_objects)
        if split_of(cells) == split:
            return cells


def _grain(scenes: Scenes, index: int, noise: float) -> np.ndarray:
    """Return whole grey levels (size, size) int16."""
    rng = generator(scenes.seed, "shapes_vqa", "grain", scenes.split, index)
    ranks = np.frombuffer(rng.bytes(scenes.size**2), dtype=np.uint8)
    return np.asarray(_levels(noise)[ranks].reshape(scenes.size, scenes.size))


@cache
def _levels(noise: float) -> np.ndarray:
    """Return the 256 equally likely grey levels that stand for a normal distribution."""
    normal = NormalDist()
    quantiles = np.array([normal.inv_cdf((rank + 0.5) / 256) for rank in range(256)])
    levels = np.clip(noise * quantiles / quantiles.std(), -255, 255)
    return np.asarray(np.rint(levels), dtype=np.int16)


def _assembled(tiles: np.ndarray) -> np.ndarray:
    """Put (n, 16, side, side, 3) tiles into (n, size, size, 3)."""
    n, _, side, _, _ = tiles.shape
    grid = tiles.reshape(n, GRID, GRID, side, side, 3).transpose(0, 1, 3, 2, 4, 5)
    return grid.reshape(n, GRID * side, GRID * side, 3)


@cache
def _stencils(side: int) -> np.ndarray:
    """Return the pixels (5, side, side) bool of each shape in a cell, and of none."""
    drawn = [_stencil(shape, side) for shape in SHAPES]
    return np.stack([*drawn, np.zeros((side, side), dtype=bool)])


def _stencil(shape: str, side: int) -> np.ndarray:
    fine = side * SUPERSAMPLING
    plane = Image.new("L", (fine, fine))
    points = [((0.5 + RADIUS * x) * fine, (0.5 + RADIUS * y) * fine) for x, y in OUTLINES[shape]]
    ImageDraw.Draw(plane).polygon(points, fill=255)
    return np.asarray(plane.reduce(SUPERSAMPLING)) >= 128


@cache
def _tiles(side: int) -> np.ndarray:
    """Return the pixels (17, side, side, 3) int16 of every object in a cell, and of the empty cell."""
    tiles = np.full((N_OBJECTS + 1, side, side, 3), GROUND, dtype=np.int16)
    for code in range(N_OBJECTS):
        colour, shape = divmod(code, len(SHAPES))
        tiles[code, _stencils(side)[shape]] = _rgb(COLOURS[colour])
    return tiles


def _rgb(colour: str) -> np.ndarray:
    rgb = colorsys.hsv_to_rgb(HUE[colour], SATURATION.get(colour, 0.88), VALUE[colour])
    return np.asarray(np.rint(255 * np.array(rgb)), dtype=np.int16)
