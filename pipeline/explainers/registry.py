"""The explainers by name."""

import difflib
from importlib import import_module
from types import ModuleType

from pipeline.errors import AssayError

NAMES = (
    "clip_dissect",
    "csv",
    "invert",
    "le_label",
    "le_siglip",
    "llm",
    "network_dissection",
    "published",
    "random",
    "top_concept",
)


def explainer(name: str) -> ModuleType:
    """Return the module of an explainer, whose `explain` gives its texts.

    Raises AssayError for a name that no module has.
    """
    if name not in NAMES:
        nearest = difflib.get_close_matches(name, NAMES, n=1)
        hint = f" Did you mean '{nearest[0]}'?" if nearest else ""
        raise AssayError(f"no explainer '{name}'; explainer.name is one of {', '.join(NAMES)}.{hint}")
    return import_module(f"pipeline.explainers.{name}")
