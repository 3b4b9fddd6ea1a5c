"""Models that are trained here, by the name in `vlm.name`.

Each module has `fit(folder, *, threads, **settings) -> facts`, which writes what the model's `load` reads;
`settings` are the keys of the model's file in conf/vlm/ that say how it is trained.
"""

import importlib
from types import ModuleType

from pipeline.errors import AssayError

NAMES = ("tiny_llava",)


def training_module(name: str) -> ModuleType:
    """Return the module that trains a model; raises AssayError for one that is not trained here."""
    if name not in NAMES:
        raise AssayError(f"vlm.name={name!r} is not trained here; there are {', '.join(NAMES)}")
    return importlib.import_module(f"pipeline.vlms.training.{name}")
