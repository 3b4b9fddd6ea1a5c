"""Metrics of two sets of images: A, where the unit is active, and C, where the concept is present.

Each function returns (U,). The names are those of NeuronEval (arXiv 2506.05774), which takes the
concept as the prediction's target: recall is P(C|A), precision is P(A|C).
"""

from pipeline.neuron_eval.columns import FloatArray
from pipeline.neuron_eval.pairs import Pairs


def recall(pairs: Pairs) -> FloatArray:
    """Return P(C|A)."""
    return pairs.n_both / pairs.n_active


def precision(pairs: Pairs) -> FloatArray:
    """Return P(A|C)."""
    return pairs.n_both / pairs.n_present


def f1(pairs: Pairs) -> FloatArray:
    """Return 2 |A and C| / (|A| + |C|), the harmonic mean of recall and precision."""
    return 2 * pairs.n_both / (pairs.n_active + pairs.n_present)


def iou(pairs: Pairs) -> FloatArray:
    """Return |A and C| / |A or C|."""
    return pairs.n_both / (pairs.n_active + pairs.n_present - pairs.n_both)


def accuracy(pairs: Pairs) -> FloatArray:
    """Return the share of images in both sets or in neither."""
    return (pairs.n_both + _neither(pairs)) / pairs.n_images


def balanced_accuracy(pairs: Pairs) -> FloatArray:
    """Return the mean of P(C|A) and P(not C|not A)."""
    return (recall(pairs) + _neither(pairs) / (pairs.n_images - pairs.n_active)) / 2


def inverse_balanced_accuracy(pairs: Pairs) -> FloatArray:
    """Return the mean of P(A|C) and P(not A|not C)."""
    return (precision(pairs) + _neither(pairs) / (pairs.n_images - pairs.n_present)) / 2


def _neither(pairs: Pairs) -> FloatArray:
    return pairs.n_images - pairs.n_active - pairs.n_present + pairs.n_both
