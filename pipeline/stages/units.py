"""units: which units of a layer are judged, and what they are like."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipeline.errors import AssayError
from pipeline.seeds import generator
from pipeline.stages.tables import write_table
from pipeline.stages.unit_activations import unit_activations

BLOCK = 4096


def run(config: dict[str, Any], inputs: dict[str, Path], output: Path) -> list[str]:
    """Write units.parquet: unit, n_units (of the layer), mean, sd, maximum, positive share, flags."""
    settings = config["unit"]
    activations = unit_activations(inputs)
    facts = describe(activations)
    chosen = choose(facts, settings["n"], settings["seed"], settings["indices"])
    write_table(facts.loc[chosen], output / "units.parquet")
    dead = int((facts["flags"] == "constant_activation").sum())
    return [f"{dead} of the layer's {len(facts)} units have one activation on all images"] if dead else []


def describe(activations: Any) -> pd.DataFrame:
    """Return one row a unit of activations (N, U), an array or codes; sums in float64, rows read in blocks.

    Raises AssayError for NaN or infinite activations.
    """
    n_images, n_units = activations.shape
    total, low, high = np.zeros(n_units), np.full(n_units, np.inf), np.full(n_units, -np.inf)
    positive = np.zeros(n_units, dtype=np.int64)
    for block in _blocks(activations):
        if not np.isfinite(block).all():
            row, unit = np.argwhere(~np.isfinite(block))[0]
            raise AssayError(
                f"activation of unit {unit} is {block[row, unit]}: recompute the layer (model.dtype=float32)"
            )
        total += block.sum(axis=0)
        low, high = np.minimum(low, block.min(axis=0)), np.maximum(high, block.max(axis=0))
        positive += (block > 0).sum(axis=0)
    mean = total / n_images
    squares = sum((((block - mean) ** 2).sum(axis=0) for block in _blocks(activations)), np.zeros(n_units))
    return pd.DataFrame(
        {
            "unit": np.arange(n_units),
            "n_units": n_units,
            "mean": mean,
            "sd": np.where(low == high, 0.0, np.sqrt(squares / n_images)),
            "maximum": high,
            "positive_share": positive / n_images,
            "flags": np.where(low == high, "constant_activation", ""),
        }
    )


def _blocks(activations: Any) -> Iterator[NDArray[np.float64]]:
    for start in range(0, len(activations), BLOCK):
        yield np.asarray(activations[start : start + BLOCK, :], dtype=np.float64)


def choose(facts: pd.DataFrame, n: int | None, seed: int, indices: list[int] | None) -> NDArray[np.int64]:
    """Return the units to judge, ascending: those named, or a seeded sample of those that vary, or all.

    Raises AssayError for an index that the layer does not have or that is named twice.
    """
    n_units = len(facts)
    if indices is not None:
        if bad := [unit for unit in indices if unit >= n_units]:
            raise AssayError(
                f"unit.indices: unit {bad[0]} is out of range; the layer has units 0 to {n_units - 1}"
            )
        if len(set(indices)) < len(indices):
            raise AssayError(f"unit.indices names a unit twice: {sorted(indices)}")
        return np.array(sorted(indices), dtype=np.int64)
    varying = np.flatnonzero((facts["flags"] == "").to_numpy())
    if n is None:
        return np.arange(n_units)
    if len(varying) == 0:
        raise AssayError(
            f"all {n_units} units of the layer have one activation on all images: choose another layer"
        )
    rng = generator(seed, "units", n_units)
    return np.sort(rng.choice(varying, size=min(n, len(varying)), replace=False))
