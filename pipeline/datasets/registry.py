"""Datasets by name."""

from importlib import import_module
from types import ModuleType

from pipeline.errors import AssayError

NAMES = ("shapes", "folder", "imagenet_val", "parquet", "cub", "coco")


def dataset(name: str) -> ModuleType:
    """Return the module of a dataset, with its `images` and `labels`; AssayError if there is none."""
    if name not in NAMES:
        raise AssayError(f"dataset.name={name!r}: no such dataset; there are {', '.join(NAMES)}")
    return import_module(f"pipeline.datasets.{name}")
