"""Scorers by the name in `scorer.name`."""

import importlib
from pathlib import Path
from types import ModuleType

from pipeline.errors import AssayError
from pipeline.scorers.scorer import Scorer

NAMES = ("open_clip", "siglip_tiny")


def scorer_module(name: str) -> ModuleType:
    """Return the scorer's module: `save` writes a scorer down, `open_saved` opens it again."""
    if name not in NAMES:
        raise AssayError(f"scorer.name={name!r} is not known; choose from {', '.join(NAMES)}")
    return importlib.import_module(f"pipeline.scorers.{name}")


def open_scorer(name: str, folder: Path) -> Scorer:
    """Return the scorer that the module's `save` left in `folder`."""
    scorer: Scorer = scorer_module(name).open_saved(folder)
    return scorer
