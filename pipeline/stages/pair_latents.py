"""pair_latents: the codes that an SAE gives the images of the pairs."""

from pathlib import Path
from typing import Any

from pipeline.stages.encoding import write_latents


def run(config: dict[str, Any], inputs: dict[str, Path], output: Path) -> list[str]:
    """Write the codes (images of the pairs, D): indptr, indices, values (.npy) and codes.json."""
    return write_latents(config, inputs["pair_activations"], inputs["sae"], output)
