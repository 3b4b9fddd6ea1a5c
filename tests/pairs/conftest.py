from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

Place = Callable[..., Path]


def encoded(seed: int, size: tuple[int, int] = (8, 6)) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    buffer = BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Write a different image for each name under tmp_path / "root"; return the root."""
    written = 0

    def write(*names: str, size: tuple[int, int] = (8, 6)) -> Path:
        nonlocal written
        for name in names:
            path = tmp_path / "root" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(encoded(written, size))
            written += 1
        return tmp_path / "root"

    return write
