"""From encoded bytes to RGB pixels, the same way for every format and mode.

Every image that this program reads is opened here, so that one limit of pixels and one list of formats hold.
"""

import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image, UnidentifiedImageError

MAX_PIXELS = 89_478_485
"""Width times height of the largest image that is decoded: 256 MiB as RGB, where Pillow begins to warn."""
FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF", "PPM")
"""Formats that are tried. Pillow knows more, one of which (EPS) starts Ghostscript on the file."""
EXIF_ORIENTATION = 0x0112
TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
SIDEWAYS = (5, 6, 7, 8)
TRANSPARENT = ("LA", "La", "PA", "RGBA", "RGBa")
BROKEN = (
    OSError,
    SyntaxError,
    ValueError,
    EOFError,
    LookupError,
    TypeError,
    OverflowError,
    struct.error,
    zlib.error,
    Image.DecompressionBombError,
)


class Undecodable(Exception):  # noqa: N818
    """Bytes that are no image, or a broken one; the message is the reason."""


@contextmanager
def opened_image(source: bytes | Path) -> Iterator[Image.Image]:
    """Open encoded bytes or a file; the header alone is read. Raises Undecodable, as does reading within.

    What is no image of FORMATS, or has more than MAX_PIXELS pixels, is refused before any pixel of it is in
    memory. The message names the file where one is given.
    """
    encoded = source if isinstance(source, bytes) else source.read_bytes()
    try:
        with Image.open(BytesIO(encoded), formats=FORMATS) as image:
            _require_small(*image.size)
            yield image
    except BROKEN as error:
        place = "" if isinstance(source, bytes) else f"{source}: "
        raise Undecodable(place + _reason(error, encoded)) from error


def decode(encoded: bytes) -> Image.Image:
    """Return the image in RGB: upright as its EXIF says, transparency flattened on white.

    An animation gives its first frame and 16-bit grey its high bits. Raises Undecodable.
    """
    with opened_image(encoded) as image:
        image.load()
        return _upright(_flat(image), _orientation(image))


def displayed_size(encoded: bytes) -> tuple[int, int]:
    """Return (width, height) as displayed, having decoded the whole image once.

    A JPEG is decoded at an eighth of its size: all its data is read, so a truncated file is
    found, at a fraction of the cost. Raises Undecodable.
    """
    with opened_image(encoded) as image:
        width, height = image.size
        if image.format == "JPEG":
            image.draft(None, (max(1, width // 8), max(1, height // 8)))
        image.load()
        _flat(image)
        return (height, width) if _orientation(image) in SIDEWAYS else (width, height)


def _require_small(width: int, height: int) -> None:
    if width * height > MAX_PIXELS:
        raise Image.DecompressionBombError(
            f"it declares {width:,} x {height:,} pixels; at most {MAX_PIXELS:,} are decoded: scale it down"
        )


def _flat(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I"):
        return _from_16_bits(image)
    if image.mode == "F":
        raise ValueError("its pixels are floating-point numbers without a defined range")
    if image.mode not in TRANSPARENT and "transparency" not in image.info:
        return image.convert("RGB")
    canvas = Image.new("RGBA", image.size, "white")
    canvas.alpha_composite(image.convert("RGBA"))
    return canvas.convert("RGB")


def _from_16_bits(image: Image.Image) -> Image.Image:
    levels = np.clip(np.asarray(image).astype(np.int64), 0, 65535)
    return Image.fromarray(((levels + 128) // 257).astype(np.uint8)).convert("RGB")


def _orientation(image: Image.Image) -> int:
    try:
        return int(image.getexif().get(EXIF_ORIENTATION, 1))
    except BROKEN:
        return 1


def _upright(image: Image.Image, orientation: int) -> Image.Image:
    turn = TURNS.get(orientation)
    return image if turn is None else image.transpose(turn)


def _reason(error: Exception, encoded: bytes) -> str:
    if not encoded:
        return "it is empty (0 bytes)"
    if isinstance(error, UnidentifiedImageError):
        return f"its {len(encoded)} bytes are no image in a known format"
    return str(error).rstrip(".") or type(error).__name__
