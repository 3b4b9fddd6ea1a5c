"""Scorers by the name in `scorer.name`."""

import importlib
from types import ModuleType

from pipeline.errors import AssayError

NAMES = ("open_clip", "dino_text", "siglip_tiny")


def scorer_module(name: str) -> ModuleType:
    """Return the scorer's module: `load(...) -> Scorer`, and `fit` where it is trained here."""
    if name not in NAMES:
        raise AssayError(f"scorer.name={name!r} is not known; choose from {', '.join(NAMES)}")
    return importlib.import_module(f"pipeline.scorers.{name}")
