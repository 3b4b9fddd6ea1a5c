"""pair_activations: every wanted layer of a model on the images of the pairs."""

from pathlib import Path
from typing import Any

from pipeline.datasets.reading import ImageReader
from pipeline.stages.capturing import capture_layers
from pipeline.stages.tables import read_table


def run_together(configs: list[dict[str, Any]], inputs: dict[str, Path], outputs: list[Path]) -> list[str]:
    """Write `<layer>.npy` (images of the pairs, d) for each config's layer."""
    table = read_table(inputs["pairs"] / "images.parquet")
    root = configs[0].get("pairs", {}).get("root")
    capture_layers(configs, ImageReader(table, root, inputs["pairs"]), outputs)
    return []
