"""activations: every wanted layer of a model, in one pass over the images."""

from pathlib import Path
from typing import Any

from pipeline.stages.capturing import capture_layers
from pipeline.stages.pictures import open_images
from pipeline.stages.tables import read_table


def run_together(configs: list[dict[str, Any]], inputs: dict[str, Path], outputs: list[Path]) -> list[str]:
    """Write `<layer>.npy` (N, U) for each config's layer; the configs differ in nothing else."""
    table = read_table(inputs["images"] / "images.parquet")
    capture_layers(configs, open_images(configs[0], inputs["images"], table), outputs)
    return []
