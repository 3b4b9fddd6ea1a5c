"""latents: the codes that an SAE gives every image of the dataset."""

from pathlib import Path
from typing import Any

from pipeline.stages.encoding import write_latents


def run(config: dict[str, Any], inputs: dict[str, Path], output: Path) -> list[str]:
    """Write the codes (N, D) of all images: indptr, indices, values (.npy) and codes.json."""
    return write_latents(config, inputs["activations"], inputs["sae"], output)
