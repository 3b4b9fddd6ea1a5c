from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

EMOJI = Path(__file__).parents[3] / "shared" / "data" / "emoji"
Encode = Callable[..., bytes]
Place = Callable[..., Path]


def encode(seed: int = 0, size: tuple[int, int] = (8, 6), kind: str = "PNG", mode: str = "RGB") -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    buffer = BytesIO()
    Image.fromarray(pixels).convert(mode).save(buffer, kind)
    return buffer.getvalue()


@pytest.fixture
def encoded() -> Encode:
    return encode


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Write an image under tmp_path / "root" and return the root."""

    def write(*names: str) -> Path:
        for i, name in enumerate(names):
            path = tmp_path / "root" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(encode(i, kind="PNG" if name.lower().endswith("png") else "JPEG"))
        return tmp_path / "root"

    return write


@pytest.fixture
def emoji() -> Path:
    if not EMOJI.is_dir():
        pytest.skip("../shared/data/emoji is not here")
    return EMOJI
