"""Where a unit is: what sets one layer's random streams apart from another's."""

from collections.abc import Mapping
from typing import Any


def place_of(config: Mapping[str, Any]) -> str:
    """Return `architecture/layer`, and for latents what they are latents of."""
    return "/".join([config["model"]["arch"], config["layer"], *_latents_of(config)])


def part_of(config: Mapping[str, Any]) -> str:
    """Name a part of a study by what people see of it, never by a key: dataset/model/layer/method."""
    explainer = config["explainer"]
    method = explainer.get("method") or explainer["name"]
    return "/".join([config["dataset"]["name"], place_of(config), method])


def _latents_of(config: Mapping[str, Any]) -> list[str]:
    latent = config.get("unit", {}).get("name") == "latent"
    return [f"latents of {config['sae']['name']}"] if latent else []
