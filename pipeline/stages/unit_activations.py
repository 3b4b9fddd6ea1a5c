"""The activations of the units that a point judges: neurons of a layer, or latents of an SAE on it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array

from pipeline.stages.sparse import read_codes
from pipeline.stages.tables import layer_array


@dataclass(frozen=True)
class LatentActivations:
    """Codes (N, D) of an SAE by column: `[:, units]` is a dense float32 (N, u), `[a:b, :]` (b - a, D)."""

    codes: csc_array

    @property
    def shape(self) -> tuple[int, ...]:
        """(N, D)."""
        return tuple(self.codes.shape)

    def __len__(self) -> int:
        return int(self.codes.shape[0])

    def __getitem__(self, key: tuple[slice, Any]) -> NDArray[np.float32]:
        """Return some images or some latents as a dense array."""
        dense: NDArray[np.float32] = self.codes[key].toarray()
        return dense


def of_units(inputs: Mapping[str, Path], units: Sequence[int], rows: NDArray[np.intp]) -> NDArray[np.generic]:
    """Return the activations (n, u) of some units on the images `rows`, dense."""
    columns: NDArray[np.generic] = np.asarray(unit_activations(inputs)[:, list(units)])[rows]
    return columns


def unit_activations(
    inputs: Mapping[str, Path], rows: NDArray[np.intp] | None = None
) -> NDArray[np.generic] | LatentActivations:
    """Return the activations (N, U) of all units on the images `rows`, in the given order, or on all images.

    inputs: of a stage that comes after `latents` (then the units are latents) or `activations`; without
    rows an array stays memory-mapped.
    """
    if "latents" in inputs:
        return LatentActivations(csc_array(read_codes(inputs["latents"], rows)))
    array = layer_array(inputs["activations"])
    return array if rows is None else np.asarray(array[rows])
