"""Explainers by the name in `attribution.name`.

A module has `NEEDS`, what it asks for beside a forward pass: `attentions` (an eager model), `gradients`,
`game` (the answer's probability in other states); and `attribute(vlm, prepared, answer, *, game=None, seed=0,
**settings) -> Attribution`. `settings` are the keys of the explainer's file in conf/attribution/ without
`name`.
"""

import difflib
import importlib
from types import ModuleType

from pipeline.errors import AssayError

NAMES = (
    "attnlrp",
    "gradcam",
    "grad_rollout",
    "ig",
    "input_x_gradient",
    "inverted_occlusion",
    "llava_cam",
    "occlusion",
    "random",
    "rollout",
    "tam",
)


def attribution_module(name: str) -> ModuleType:
    """Return the explainer's module; raises AssayError for an unknown name."""
    if name not in NAMES:
        nearest = difflib.get_close_matches(name, NAMES, n=1)
        hint = f" Did you mean '{nearest[0]}'?" if nearest else ""
        raise AssayError(f"attribution.name={name!r} is not known; choose from {', '.join(NAMES)}.{hint}")
    return importlib.import_module(f"pipeline.attributions.{name}")
