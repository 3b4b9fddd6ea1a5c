"""Uniform sampling: every image equally likely."""

import numpy as np
from numpy.typing import ArrayLike

from pipeline.crowd.arrays import vector
from pipeline.crowd.samplers.drawing import draw_from
from pipeline.crowd.samplers.draws import Draws, check_n_inputs


def draw(
    activation: ArrayLike,
    probability: ArrayLike,
    rng: np.random.Generator,
    *,
    n_inputs: int,
    replacement: bool = True,
) -> Draws:
    """Draw n_inputs images, each with chance 1/N.

    activation (N,) and probability (N,) are checked, not used. Raises AssayError for shapes that
    differ, NaN or infinity, n_inputs < 1, and without replacement for n_inputs > N.
    """
    check_n_inputs(n_inputs)
    n_images = len(vector("activation", activation))
    vector("probability", probability, n_images)
    q = np.full(n_images, 1 / n_images)
    if replacement:
        return Draws(q, rng.integers(n_images, size=n_inputs))
    return draw_from(q, n_inputs, rng, replacement=False)
