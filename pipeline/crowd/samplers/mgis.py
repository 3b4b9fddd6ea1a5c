"""Marginal importance sampling: where unit and scorer both depart from their means."""

import numpy as np
from numpy.typing import ArrayLike

from pipeline.crowd.arrays import is_constant
from pipeline.crowd.proposal import proposal, uniform_reasons
from pipeline.crowd.samplers.drawing import draw_from
from pipeline.crowd.samplers.draws import Draws, check_n_inputs


def draw(
    activation: ArrayLike,
    probability: ArrayLike,
    rng: np.random.Generator,
    *,
    n_inputs: int,
    uniform_share: float = 0.2,
    replacement: bool = True,
) -> Draws:
    """Draw n_inputs images from the MG-IS proposal.

    activation (N,), probability (N,). Where the proposal falls back to uniform, the flags are
    `uniform_proposal` and the reason. Raises AssayError as `proposal` and `draw_from` do, and
    for n_inputs < 1.
    Source: "Beyond Top Activations" (arXiv 2506.07985), MG-IS.
    """
    check_n_inputs(n_inputs)
    q = proposal(activation, probability, uniform_share)
    reasons = uniform_reasons(activation, probability) if is_constant(q) else ()
    flags = ("uniform_proposal", *reasons) if reasons else ()
    return draw_from(q, n_inputs, rng, replacement=replacement, flags=flags)
