"""vlm: train the small model here; a pretrained one only states what it is and how it is loaded."""

from pathlib import Path
from typing import Any

from pipeline.files import write_json
from pipeline.stages.keywords import keywords
from pipeline.vlms.training.registry import NAMES, training_module


def run(config: dict[str, Any], inputs: dict[str, Path], output: Path) -> list[str]:
    """Write facts.json (name, settings), and the weights where they are trained here."""
    settings = config["vlm"]
    facts: dict[str, Any] = {"name": settings["name"]}
    if settings["name"] in NAMES:
        fit = training_module(settings["name"]).fit
        facts |= fit(output, **keywords(fit, {**settings, "threads": config["numerics"]["threads"]}))
    else:
        weights = {name: value for name, value in settings["weights"].items() if name != "path"}
        facts |= {"weights": weights, "max_pixels": settings.get("max_pixels")}
    write_json(output / "facts.json", facts)
    return []
