"""Activations of all wanted layers in one pass over the images."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from pipeline.errors import AssayError
from pipeline.models.batch_size import BatchSize, Pieces, at_once
from pipeline.models.capture import capture, check_layers
from pipeline.models.device import inference
from pipeline.models.images import Images, batches
from pipeline.models.loaded import Loaded

Array = np.ndarray[tuple[int, int], np.dtype[Any]]


def write_activations(
    loaded: Loaded,
    images: Images,
    layers: Sequence[str],
    outputs: Mapping[str, Path],
    *,
    pool: str,
    dtype: str,
    batch_size: BatchSize,
    workers: int,
    device: str,
    precision: str,
    tf32: bool,
    threads: int,
    progress: bool,
) -> None:
    """Write one array (N, U) of `dtype` for each layer to `outputs[layer]`, row i = image i.

    One forward pass serves all layers; memory is bounded by the batch, never by N. Raises
    AssayError for an unknown layer, a pool that does not fit, zero images, an activation that is
    not finite, or one too large for float16. What was written until then stays at the paths:
    give temporary ones.
    """
    check_layers(loaded.module, layers)
    arrays: dict[str, Array] = {}
    with (
        inference(device, precision=precision, tf32=tf32, threads=threads) as target,
        capture(_placed(loaded, target), layers, pool, n_prefix_tokens=loaded.n_prefix_tokens) as forward,
    ):
        source = batches(
            images,
            loaded.transform,
            batch_size=at_once(batch_size),
            workers=workers,
            device=target,
            progress="activations" if progress else "",
        )
        for rows, found in Pieces(batch_size, device).through(source, forward):
            for layer, values in found.items():
                block = values.cpu().numpy()
                _check_finite(block, rows.start, layer, images, dtype)
                if layer not in arrays:
                    arrays[layer] = _create(outputs[layer], (len(images), block.shape[1]), dtype)
                arrays[layer][rows] = block
    for array in arrays.values():
        array.flush()  # type: ignore[attr-defined]


def _placed(loaded: Loaded, device: torch.device) -> nn.Module:
    return loaded.module.to(device).to(memory_format=torch.channels_last)


def _create(path: Path, shape: tuple[int, int], dtype: str) -> Array:
    return np.lib.format.open_memmap(path, mode="w+", dtype=np.dtype(dtype), shape=shape)


def _check_finite(block: Array, start: int, layer: str, images: Images, dtype: str) -> None:
    size = np.abs(block).max(axis=1)
    bad = ~np.isfinite(size)
    if bad.any():
        raise AssayError(
            f"layer={layer}: NaN or infinite activation at {_rows(bad, start, images)}; "
            "look at the image and the weights, or use numerics.precision=float32"
        )
    bad = size > np.finfo(np.dtype(dtype)).max
    if bad.any():
        raise AssayError(
            f"layer={layer}: activation up to {size.max():.4g} does not fit {dtype} at "
            f"{_rows(bad, start, images)}; use model.dtype=float32"
        )


def _rows(bad: np.ndarray[Any, Any], start: int, images: Images, shown: int = 5) -> str:
    rows = [start + int(i) for i in np.flatnonzero(bad)]
    ids = getattr(images, "ids", None)
    named = [f"{row} ({ids[row]})" if ids is not None else str(row) for row in rows[:shown]]
    more = f" and {len(rows) - shown} more in this batch" if len(rows) > shown else ""
    return f"image row {', '.join(named)}{more}"
