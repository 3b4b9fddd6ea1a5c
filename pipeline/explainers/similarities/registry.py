"""The similarities of CLIP-Dissect by the name in `explainer.similarity`.

A similarity is a module with `scores(activations, cosines, units, *, <settings>) -> Iterator[Block]`, which
scores `units` (indices into the layer of `activations` (N, U)) against every concept of `cosines` (N, T), and
with `UNSCORED`, the reason of a unit that no concept has a score for (NaN in every block).
"""

from importlib import import_module
from types import ModuleType

from pipeline.errors import AssayError

NAMES = ("soft_wpmi", "wpmi", "rank_reorder", "cos", "cos_cubed")


def similarity(name: str) -> ModuleType:
    """Return the module of a similarity; AssayError for a name that no module has."""
    if name not in NAMES:
        raise AssayError(f"no similarity '{name}'; explainer.similarity is one of {', '.join(NAMES)}")
    return import_module(f"pipeline.explainers.similarities.{name}")
