"""The most active images: the old protocol, kept to show what it gets wrong."""

import numpy as np
from numpy.typing import ArrayLike

from pipeline.crowd.arrays import vector
from pipeline.crowd.samplers.draws import Draws, check_n_inputs
from pipeline.errors import AssayError


def draw(activation: ArrayLike, probability: ArrayLike, rng: np.random.Generator, *, n_inputs: int) -> Draws:
    """Take the n_inputs most active images, most active first; of equals the lowest index first.

    activation (N,); probability (N,) is checked, not used, and neither is rng. Nothing is drawn at
    random, so there is no q that corrects for the choice: q is 1/N (weight 1), the estimate is
    biased by design, and the flag `top_images_only` says so. Raises AssayError for shapes that
    differ, NaN or infinity, n_inputs < 1, and n_inputs > N.
    """
    check_n_inputs(n_inputs)
    a = vector("activation", activation)
    vector("probability", probability, len(a))
    if n_inputs > len(a):
        raise AssayError(
            f"n_inputs is {n_inputs} but there are {len(a)} images; sampler 'top' takes an image once, "
            "so lower sampler.n_inputs"
        )
    most_active = np.argsort(-a, kind="stable")[:n_inputs]
    return Draws(np.full(len(a), 1 / len(a)), most_active, ("top_images_only",))
