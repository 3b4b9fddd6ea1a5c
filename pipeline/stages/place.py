"""Where a unit is: what sets one layer's random streams apart from another's."""

from collections.abc import Mapping
from typing import Any


def place_of(config: Mapping[str, Any]) -> str:
    """Return `architecture/layer`."""
    return f"{config['model']['arch']}/{config['layer']}"


def part_of(config: Mapping[str, Any]) -> str:
    """Name a part of a study by what people see of it, never by a key: dataset/model/layer/method."""
    explainer = config["explainer"]
    method = explainer.get("method") or explainer["name"]
    return "/".join([config["dataset"]["name"], config["model"]["arch"], config["layer"], method])
