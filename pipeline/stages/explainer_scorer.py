"""explainer_scorer: the scorer that explainers see images with, where it is not the judge's."""

from pathlib import Path
from typing import Any

from pipeline.stages import scorer


def run(config: dict[str, Any], inputs: dict[str, Path], output: Path) -> list[str]:
    """Write what the scorer stage does."""
    return scorer.run({**config, "scorer": config["explainer_scorer"]}, inputs, output)
