"""From encoded bytes to RGB pixels, the same way for every format and mode."""

import struct
import zlib
from io import BytesIO

import numpy as np
from PIL import Image, UnidentifiedImageError

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


def decode(encoded: bytes) -> Image.Image:
    """Return the image in RGB: upright as its EXIF says, transparency flattened on white.

    An animation gives its first frame and 16-bit grey its high bits. Raises Undecodable.
    """
    try:
        with Image.open(BytesIO(encoded)) as image:
            image.load()
            return _upright(_flat(image), _orientation(image))
    except BROKEN as error:
        raise Undecodable(_reason(error, encoded)) from error


def displayed_size(encoded: bytes) -> tuple[int, int]:
    """Return (width, height) as displayed, having decoded the whole image once.

    A JPEG is decoded at an eighth of its size: all its data is read, so a truncated file is
    found, at a fraction of the cost. Raises Undecodable.
    """
    try:
        with Image.open(BytesIO(encoded)) as image:
            width, height = image.size
            if image.format == "JPEG":
                image.draft(None, (max(1, width // 8), max(1, height // 8)))
            image.load()
            _flat(image)
            return (height, width) if _orientation(image) in SIDEWAYS else (width, height)
    except BROKEN as error:
        raise Undecodable(_reason(error, encoded)) from error


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
    return str(error) or type(error).__name__
