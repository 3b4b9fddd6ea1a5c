"""Metrics that are means over a set of images: WPMI and the mean activation difference. Each is (U,).

Source: NeuronEval (arXiv 2506.05774); WPMI is that of CLIP-Dissect (arXiv 2204.10965).
"""

import numpy as np

from pipeline.neuron_eval.columns import FloatArray
from pipeline.neuron_eval.pairs import Pairs

FLOOR = 1e-8


def wpmi(pairs: Pairs) -> FloatArray:
    """Return mean over A of log c, less lambda log of the mean of c over all images, c floored at 1e-8."""
    c = np.maximum(pairs.concepts.values, FLOOR)
    inside = np.einsum("un,un->u", np.log(c), pairs.active) / pairs.n_active
    return np.asarray(inside - pairs.penalty * np.log(c.mean(axis=1)))


def wpmi_bounds(pairs: Pairs) -> tuple[FloatArray, FloatArray]:
    """Return log 1e-8 and -lambda log alpha, (U,) each: no WPMI at that alpha and lambda leaves them.

    With m the mean of c over A, the first term is at most log m, and the mean of c is at least
    alpha m; so WPMI is at most (1 - lambda) log m - lambda log alpha.
    """
    return np.full(len(pairs.alpha), np.log(FLOOR)), -pairs.penalty * np.log(pairs.alpha)


def mean_activation_difference(pairs: Pairs) -> FloatArray:
    """Return the mean of a where the concept is present less its mean where it is not (MAD)."""
    total = pairs.activations.values.sum(axis=1)
    inside = np.einsum("un,un->u", pairs.activations.values, pairs.present)
    return np.asarray(inside / pairs.n_present - (total - inside) / (pairs.n_images - pairs.n_present))


def mean_activation_difference_bounds(pairs: Pairs) -> tuple[FloatArray, FloatArray]:
    """Return minus and plus the range of each unit's activations, (U,) each."""
    spread = np.ptp(pairs.activations.values, axis=1)
    return -spread, spread
