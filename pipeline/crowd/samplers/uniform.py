"""Uniform sampling: every image equally likely."""

import numpy as np
from numpy.typing import ArrayLike

from pipeline.crowd.arrays import vector
from pipeline.crowd.samplers.draws import Draws, check_n_inputs


def draw(activation: ArrayLike, probability: ArrayLike, rng: np.random.Generator, *, n_inputs: int) -> Draws:
    """Draw n_inputs images with replacement, each with chance 1/N.

    activation (N,) and probability (N,) are checked, not used. Raises AssayError for shapes that
    differ, NaN or infinity, and n_inputs < 1.
    """
    check_n_inputs(n_inputs)
    n_images = len(vector("activation", activation))
    vector("probability", probability, n_images)
    return Draws(np.full(n_images, 1 / n_images), rng.integers(n_images, size=n_inputs))
