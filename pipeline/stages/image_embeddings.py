"""scorer: train a small one here, or find the weights of a pretrained one."""

from pathlib import Path
from typing import Any

from pipeline.scorers.registry import scorer_module


def run(config: dict[str, Any], inputs: dict[str, Path], output: Path) -> list[str]:
    """Write a scorer that `open_scorer` reads."""
    module = scorer_module(config["scorer"]["name"])
    return module.prepare(config, inputs, output)
