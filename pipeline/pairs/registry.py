"""Sources of pairs by the name in `pairs.name`."""

from importlib import import_module
from types import ModuleType

from pipeline.errors import AssayError

NAMES = ("shapes", "syncub", "syncoco", "edited")


def pair_source(name: str) -> ModuleType:
    """Return the source's module: `pairs(folder, *, attributes, **settings) -> PairSet`."""
    if name not in NAMES:
        raise AssayError(f"pairs.name={name!r}: no such source of pairs; there are {', '.join(NAMES)}")
    return import_module(f"pipeline.pairs.{name}")
