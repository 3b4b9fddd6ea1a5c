"""The images of a split."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipeline.errors import AssayError


def rows_of_split(images: pd.DataFrame, split: str, key: str) -> NDArray[np.intp]:
    """Return the rows of `split` ("all": every row), in image order.

    Raises AssayError naming `key` where there is none.
    """
    rows = np.arange(len(images)) if split == "all" else np.flatnonzero((images["split"] == split).to_numpy())
    if len(rows) == 0:
        counts = images["split"].replace("", "(none)").value_counts().to_dict()
        raise AssayError(
            f"{key}={split}: no image is in that split; images by split: {counts}; see dataset.splits"
        )
    return rows
