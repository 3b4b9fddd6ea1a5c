"""One pass of a model over images, for every layer that some job wants."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline.datasets.reading import ImageReader
from pipeline.models.activations import write_activations
from pipeline.models.registry import loader


def capture_layers(configs: Sequence[dict[str, Any]], images: ImageReader, outputs: Sequence[Path]) -> None:
    """Write `<layer>.npy` (N, U) into each config's folder; the configs differ in their layer alone."""
    config = configs[0]
    model = config["model"]
    layers = [c["layer"] for c in configs]
    write_activations(
        loader(model["name"])(arch=model["arch"], weights=model["weights"], input_size=model["input_size"]),
        images,
        layers,
        {
            layer: output / f"{layer.replace('/', '_')}.npy"
            for layer, output in zip(layers, outputs, strict=True)
        },
        pool=model["pool"],
        dtype=model["dtype"],
        device=config["device"],
        progress=True,
        **config["loader"],
        **config["numerics"],
    )
