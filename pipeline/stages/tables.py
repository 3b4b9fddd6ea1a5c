"""Tables and arrays as stages pass them on."""

from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray


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
    (path,) = activations.glob("*.npy")
    return read_array(path)
