"""What a sweep's report and tracking are told of its points: what all have in common stands there once."""

from collections.abc import Mapping
from typing import Any

TOLD = ("settings", "choices", "results")


def told_points(config: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a sweep's points, each with all its settings, choices and results."""
    return [
        {**point, **{name: {**config[name], **point[name]} for name in TOLD}} for point in config["points"]
    ]
