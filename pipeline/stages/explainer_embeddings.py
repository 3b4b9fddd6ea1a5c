"""explainer_embeddings: every image in the space of the explainers' own scorer."""

from pathlib import Path
from typing import Any

from pipeline.stages import image_embeddings


def run(config: dict[str, Any], inputs: dict[str, Path], output: Path) -> list[str]:
    """Write what the image_embeddings stage does."""
    own = {**config, "scorer": config["explainer_scorer"]}
    return image_embeddings.run(own, {**inputs, "scorer": inputs["explainer_scorer"]}, output)
