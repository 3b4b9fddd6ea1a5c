"""The pixels of a sample's sheet as data URIs: the canvas that the model sees, and maps over it."""

import base64
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image

from pipeline.datasets.decoding import opened_image

FOR, AGAINST = (213, 94, 0), (0, 114, 178)
OPACITY = 0.8
LEVELS = 16
"""Shades of a map between nothing and its strongest patch, to either side."""
LARGEST_PNG, LARGEST_SIDE = 128, 448
MAX_BYTES, QUALITIES = 23_000, (85, 75, 60, 45, 30)


def shade_levels(scores: ArrayLike) -> NDArray[np.int64]:
    """Return the shades (m,) of scores: -LEVELS to LEVELS.

    With a score below 0: in proportion to it, the largest absolute one LEVELS. Without: from 0, the lowest
    score, to LEVELS, the highest. Constant scores have no shade.
    """
    values = np.asarray(scores, dtype=np.float64)
    low, high = float(values.min()), float(values.max())
    if low == high:
        return np.zeros(len(values), dtype=np.int64)
    shares = values / np.abs(values).max() if low < 0 else (values - low) / (high - low)
    return np.rint(LEVELS * shares).astype(np.int64)


def heat_uri(scores: ArrayLike, grid: tuple[int, int]) -> str:
    """Return a PNG of one pixel a patch, (rows, columns): what is high in FOR, negative in AGAINST."""
    shades = np.arange(-LEVELS, LEVELS + 1)
    image = Image.fromarray((shade_levels(scores) + LEVELS).astype(np.uint8).reshape(grid), mode="P")
    image.putpalette([channel for shade in shades for channel in (FOR if shade > 0 else AGAINST)])
    return _uri(_encoded(image, "PNG", optimize=True, transparency=_opacities(shades).tobytes()), "png")


def heated(canvas: Image.Image, scores: ArrayLike, grid: tuple[int, int]) -> Image.Image:
    """Return a canvas with the map of `heat_uri` over it, a rectangle a patch."""
    shades = shade_levels(scores).reshape(grid)
    colours = np.where((shades > 0)[..., None], FOR, AGAINST)
    pixels = np.dstack([colours, _opacities(shades)]).astype(np.uint8)
    heat = Image.fromarray(pixels, mode="RGBA").resize(canvas.size, Image.Resampling.NEAREST)
    return Image.alpha_composite(canvas.convert("RGBA"), heat).convert("RGB")


def _opacities(shades: NDArray[np.int64]) -> NDArray[np.uint8]:
    return np.rint(255 * OPACITY * np.abs(shades) / LEVELS).astype(np.uint8)


def canvas_uri(path: Path) -> tuple[str, tuple[int, int]]:
    """Return an image file as a data URI and its width and height.

    Up to LARGEST_PNG pixels a side it is a PNG; larger ones are JPEG, at most LARGEST_SIDE pixels a side and
    of the highest of QUALITIES that takes at most MAX_BYTES.
    """
    with opened_image(path) as source:
        image = source.convert("RGB")
    size = image.size
    if max(size) <= LARGEST_PNG:
        return _uri(_encoded(image, "PNG", optimize=True), "png"), size
    image.thumbnail((LARGEST_SIDE, LARGEST_SIDE))
    for quality in QUALITIES:
        encoded = _encoded(image, "JPEG", quality=quality, optimize=True)
        if len(encoded) <= MAX_BYTES:
            break
    return _uri(encoded, "jpeg"), size


def _encoded(image: Image.Image, kind: str, **settings: object) -> bytes:
    stream = BytesIO()
    image.save(stream, kind, **settings)
    return stream.getvalue()


def _uri(content: bytes, kind: str) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(content).decode('ascii')}"
