"""Datasets of questions about images, by name."""

from importlib import import_module
from types import ModuleType

from pipeline.datasets.nearest import did_you_mean
from pipeline.errors import AssayError

NAMES = ("cv_bench", "mmstar", "repope", "shapes_vqa")


def vqa_dataset(name: str) -> ModuleType:
    """Return the module of a dataset, whose `read` lists its samples; AssayError if there is none."""
    if name not in NAMES:
        raise AssayError(
            f"no question answering dataset {name!r}{did_you_mean(name, NAMES)}; there are {', '.join(NAMES)}"
        )
    return import_module(f"pipeline.vqa.{name}")
