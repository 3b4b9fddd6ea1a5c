"""activations: every wanted layer of a model, in one pass over the images."""

from pathlib import Path
from typing import Any

from pipeline.models.activations import write_activations
from pipeline.models.registry import loader
from pipeline.stages.pictures import open_images
from pipeline.stages.tables import read_table


def run_together(configs: list[dict[str, Any]], inputs: dict[str, Path], outputs: list[Path]) -> list[str]:
    """Write `<layer>.npy` (N, U) for each config's layer; the configs differ in nothing else."""
    config = configs[0]
    model = config["model"]
    table = read_table(inputs["images"] / "images.parquet")
    layers = [c["layer"] for c in configs]
    write_activations(
        loader(model["name"])(arch=model["arch"], weights=model["weights"], input_size=model["input_size"]),
        open_images(config, inputs["images"], table),
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
    return []
