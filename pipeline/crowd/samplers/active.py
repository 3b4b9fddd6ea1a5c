"""Active sampling: where the scorer is unsure and the answer moves the correlation."""

import numpy as np
from numpy.typing import ArrayLike

from pipeline.crowd.arrays import is_constant
from pipeline.crowd.proposal import active_proposal, uniform_reasons
from pipeline.crowd.samplers.drawing import draw_from
from pipeline.crowd.samplers.draws import Draws, check_n_inputs


def draw(
    activation: ArrayLike,
    probability: ArrayLike,
    rng: np.random.Generator,
    *,
    n_inputs: int,
    uniform_share: float = 0.1,
    floor: float = 0.1,
    mgis_share: float = 0.5,
    replacement: bool = True,
) -> Draws:
    """Draw n_inputs images by `active_proposal` of activation (N,) and probability (N,).

    Where it falls back to uniform, the flags are `uniform_proposal` and the reason. Raises AssayError as
    `active_proposal` and `draw_from` do, and for n_inputs < 1.
    """
    check_n_inputs(n_inputs)
    q = active_proposal(activation, probability, uniform_share, floor, mgis_share)
    reasons = uniform_reasons(activation, probability) if is_constant(q) else ()
    flags = ("uniform_proposal", *reasons) if reasons else ()
    return draw_from(q, n_inputs, rng, replacement=replacement, flags=flags)
