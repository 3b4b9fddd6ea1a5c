"""The tags of a point's W&B run."""

from collections.abc import Mapping
from typing import Any


def tags(point: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a point's tags: the option chosen in each group that it reads."""
    return tuple(sorted({f"{group}:{choice}" for group, choice in point["choices"].items()}))
