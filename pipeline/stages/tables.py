"""Tables and arrays as stages pass them on."""

from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipeline.files import read_json


def write_table(table: pd.DataFrame, path: Path) -> None:
    """Write a table as Parquet without its index."""
    table.to_parquet(path, index=False)


def read_table(path: Path) -> pd.DataFrame:
    """Read a Parquet table."""
    return pd.read_parquet(path)


def write_array(array: NDArray[np.generic], path: Path) -> None:
    """Write an array as .npy."""
    np.save(path, array, allow_pickle=False)


def read_array(path: Path) -> NDArray[np.generic]:
    """Open an array memory-mapped, read-only; never unpickles."""
    array: NDArray[np.generic] = np.load(path, mmap_mode="r", allow_pickle=False)
    return array


def layer_array(activations: Path) -> NDArray[np.generic]:
    """Open the activations (N, U) of a result of the activations stage, which holds one layer."""
    (path,) = written(activations, "*.npy")
    return read_array(path)


def written(result: Path, pattern: str) -> list[Path]:
    """Return the files of a result's folder that fit a pattern, sorted: those that its stage wrote.

    What somebody put beside them is none of them. A folder without a meta.json is one at work.
    """
    found = sorted(result.glob(pattern))
    if not (result / "meta.json").is_file():
        return found
    outputs = read_json(result / "meta.json")["outputs"]
    return [path for path in found if path.name in outputs]
