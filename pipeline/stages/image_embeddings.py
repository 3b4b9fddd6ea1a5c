"""image_embeddings: every image in the scorer's space."""

from pathlib import Path
from typing import Any

from pipeline.stages.open_scorer import open_scorer
from pipeline.stages.pictures import open_images
from pipeline.stages.tables import read_table, write_array


def run(config: dict[str, Any], inputs: dict[str, Path], output: Path) -> list[str]:
    """Write image_embeddings.npy, (N, d) float32 with rows of length 1."""
    table = read_table(inputs["images"] / "images.parquet")
    embeddings = open_scorer(config["scorer"], inputs["scorer"]).embed_images(
        open_images(config, inputs["images"], table),
        **config["loader"],
        **config["numerics"],
        device=config["device"],
        progress=True,
    )
    write_array(embeddings, output / "image_embeddings.npy")
    return []
