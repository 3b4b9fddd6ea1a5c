"""What a state of the game looks like: blurred where a patch is gone, padded where a token is gone."""

from typing import Any

import numpy as np
from PIL import Image, ImageFilter

from pipeline.vlms.prepared import Ints, Prepared

Kept = np.ndarray[Any, np.dtype[np.bool_]]
BLUR_RADIUS = 30.0


def blurred_canvas(prepared: Prepared, radius: float = BLUR_RADIUS) -> Image.Image:
    """Return the canvas under PIL's Gaussian blur of `radius` pixels: every patch gone."""
    return prepared.canvas.filter(ImageFilter.GaussianBlur(radius))


def patch_map(prepared: Prepared) -> Ints:
    """Return (height, width) int64: which patch each pixel of the canvas belongs to, -1 for none."""
    width, height = prepared.canvas.size
    owner = np.full((height, width), -1, dtype=np.int64)
    for patch, (left, top, right, bottom) in enumerate(prepared.footprints.tolist()):
        owner[top:bottom, left:right] = patch
    return owner


def masked_canvas(prepared: Prepared, kept: Kept, blurred: Image.Image, owner: Ints) -> Image.Image:
    """Return the canvas, sharp where `kept` (m,) holds and from `blurred` elsewhere.

    `owner` is `patch_map(prepared)`. A pixel of no patch stays sharp: no visual token stands for it.
    """
    sharp = np.append(np.asarray(kept, dtype=bool), True)[owner]
    pixels = np.where(sharp[..., None], np.asarray(prepared.canvas), np.asarray(blurred))
    return Image.fromarray(pixels)


def padded_ids(prepared: Prepared, kept: Kept, pad_id: int) -> Ints:
    """Return the prompt's ids (..., L) for `kept` (..., n): the question's other tokens become `pad_id`."""
    kept = np.asarray(kept, dtype=bool)
    ids = np.broadcast_to(prepared.input_ids, (*kept.shape[:-1], len(prepared.input_ids))).copy()
    ids[..., prepared.query_positions] = np.where(kept, ids[..., prepared.query_positions], pad_id)
    return ids
