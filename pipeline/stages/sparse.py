"""Codes of an SAE as stages pass them on: compressed rows, each array a memory-mapped file."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from pipeline.files import read_json, write_json
from pipeline.stages.tables import read_array, write_array


def write_codes(codes: csr_array, folder: Path) -> None:
    """Write codes (N, D) as indptr.npy, indices.npy, values.npy and codes.json (shape, mean L0)."""
    write_array(codes.indptr.astype(np.int64), folder / "indptr.npy")
    write_array(codes.indices.astype(np.int32), folder / "indices.npy")
    write_array(codes.data.astype(np.float32), folder / "values.npy")
    n_images, n_latents = codes.shape
    l0 = codes.nnz / n_images if n_images else 0.0
    write_json(folder / "codes.json", {"n_images": n_images, "n_latents": n_latents, "l0": l0})


def read_codes(folder: Path, rows: NDArray[np.intp] | None = None) -> csr_array:
    """Read codes (N, D) float32, or those of some rows in the given order."""
    facts = read_json(folder / "codes.json")
    values, indices, indptr = (
        np.asarray(read_array(folder / f"{name}.npy")) for name in ("values", "indices", "indptr")
    )
    codes = csr_array((values, indices, indptr), shape=(facts["n_images"], facts["n_latents"]))
    return codes if rows is None else csr_array(codes[rows])
