"""Model libraries by the name in `model.name`."""

import importlib
from collections.abc import Callable

from pipeline.errors import AssayError
from pipeline.models.loaded import Loaded

NAMES = ("timm", "torchvision", "open_clip")


def loader(name: str) -> Callable[..., Loaded]:
    """Return `load(*, arch, weights, input_size) -> Loaded` of the library."""
    if name not in NAMES:
        raise AssayError(f"model.name={name!r} is not known; choose from {', '.join(NAMES)}")
    load: Callable[..., Loaded] = importlib.import_module(f"pipeline.models.{name}").load
    return load
