import base64
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

Encode = Callable[..., bytes]


def encode(seed: int = 0, side: int = 8, kind: str = "PNG") -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, (side, side, 3), dtype=np.uint8)
    buffer = BytesIO()
    Image.fromarray(pixels).save(buffer, kind)
    return buffer.getvalue()


@pytest.fixture
def encoded() -> Encode:
    return encode


@pytest.fixture
def base64_of() -> Callable[..., str]:
    return lambda *args, **settings: base64.b64encode(encode(*args, **settings)).decode()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    return tmp_path / "data"
