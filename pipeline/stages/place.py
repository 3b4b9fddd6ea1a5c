"""Where a unit is: what sets one layer's random streams apart from another's."""

from collections.abc import Mapping
from typing import Any


def place_of(config: Mapping[str, Any]) -> str:
    """Return `architecture/layer`."""
    return f"{config['model']['arch']}/{config['layer']}"
