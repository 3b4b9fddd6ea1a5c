"""A result of the scorer stage, opened."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.scorers.registry import scorer_module
from pipeline.scorers.scorer import Scorer
from pipeline.stages.keywords import keywords

TRAINED = "scorer.safetensors"


def open_scorer(settings: Mapping[str, Any], folder: Path) -> Scorer:
    """Return the scorer of `settings`; one that was trained here is read from `folder`."""
    module = scorer_module(settings["name"])
    scorer: Scorer = module.load(**keywords(module.load, {**settings, "path": folder / TRAINED}))
    return scorer
