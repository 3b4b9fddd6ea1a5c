"""Vision-language models by the name in `vlm.name`; each module has `load(...) -> Vlm`."""

import importlib
from types import ModuleType

from pipeline.errors import AssayError

NAMES = ("internvl", "llava", "qwen2_5_vl", "tiny_llava")


def vlm_module(name: str) -> ModuleType:
    """Return the model's module; raises AssayError for an unknown name."""
    if name not in NAMES:
        raise AssayError(f"vlm.name={name!r} is not known; choose from {', '.join(NAMES)}")
    return importlib.import_module(f"pipeline.vlms.{name}")
