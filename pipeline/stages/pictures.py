"""The images of a run, opened for a model."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from pipeline.datasets.reading import ImageReader


def open_images(config: Mapping[str, Any], images: Path, table: pd.DataFrame) -> ImageReader:
    """Return a reader of the images in `table`, rows of the images stage's table."""
    return ImageReader(table, config.get("dataset", {}).get("root"), images)
