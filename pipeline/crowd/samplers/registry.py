"""Samplers by name."""

from importlib import import_module
from typing import Protocol, cast

import numpy as np
from numpy.typing import ArrayLike

from pipeline.crowd.samplers.draws import Draws
from pipeline.errors import AssayError

NAMES = ("active", "mgis", "stratified", "top", "uniform")


class Sampler(Protocol):
    """Draws images for one unit and text; a sampler's own settings are keyword arguments."""

    def __call__(
        self,
        activation: ArrayLike,
        probability: ArrayLike,
        rng: np.random.Generator,
        *,
        n_inputs: int,
        **settings: float,
    ) -> Draws:
        """Return the draws over activation (N,) and probability (N,)."""


def sampler(name: str) -> Sampler:
    """Return the `draw` function of the sampler of that name; AssayError where there is none."""
    if name not in NAMES:
        raise AssayError(f"unknown sampler {name!r}; known: {', '.join(NAMES)}")
    return cast(Sampler, import_module(f"pipeline.crowd.samplers.{name}").draw)
