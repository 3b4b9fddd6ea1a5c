"""Settings as keyword arguments: each function takes the fields that it names."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any


def keywords(function: Callable[..., Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return those settings that `function` has a parameter for."""
    return {name: settings[name] for name in inspect.signature(function).parameters if name in settings}
