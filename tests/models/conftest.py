"""Rendered images for the model tests."""

import numpy as np
import pytest
from PIL import Image


@pytest.fixture
def pictures() -> list[Image.Image]:
    rng = np.random.default_rng(0)
    return [Image.fromarray(rng.integers(0, 256, (40, 40, 3), dtype=np.uint8)) for _ in range(11)]
