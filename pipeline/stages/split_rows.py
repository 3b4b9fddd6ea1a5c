"""The images of a split."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import AssayError
from pipeline.stages.tables import read_table


def rows_of_split(splits: Path, split: str, key: str) -> NDArray[np.intp]:
    """Return the rows of `split` ("all": every row) in image order, read from the splits stage's folder.

    Raises AssayError naming `key` where there is none.
    """
    column = read_table(splits / "splits.parquet")["split"]
    rows = np.arange(len(column)) if split == "all" else np.flatnonzero((column == split).to_numpy())
    if len(rows) == 0:
        counts = column.replace("", "(none)").value_counts().to_dict()
        raise AssayError(
            f"{key}={split}: no image is in that split; images by split: {counts}; see dataset.splits"
        )
    return rows
