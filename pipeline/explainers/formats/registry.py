"""The formats by name."""

import difflib
from importlib import import_module
from types import ModuleType

from pipeline.errors import AssayError

NAMES = ("clip_dissect", "dnd", "linear_explanations", "maia", "milan", "network_dissection")


def result_format(name: str) -> ModuleType:
    """Return the module of a format, whose `read` gives the rows of a file.

    Raises AssayError for a name that no module has.
    """
    if name not in NAMES:
        nearest = difflib.get_close_matches(name, NAMES, n=1)
        hint = f" Did you mean '{nearest[0]}'?" if nearest else ""
        raise AssayError(f"no format '{name}'; explainer.format is one of {', '.join(NAMES)}.{hint}")
    return import_module(f"pipeline.explainers.formats.{name}")
