"""Metrics of a ranking of the images against a set of them; each returns (U,). Ties are shared out.

Source: NeuronEval (arXiv 2506.05774); the AUC by midranks is the Mann-Whitney statistic.
"""

import numpy as np

from pipeline.neuron_eval.columns import BoolArray, Columns, FloatArray
from pipeline.neuron_eval.pairs import Pairs


def auc(pairs: Pairs) -> FloatArray:
    """Return P(c of an active image > c of another one), a tie counting one half."""
    return area_under_roc(pairs.concepts, pairs.active)


def inverse_auc(pairs: Pairs) -> FloatArray:
    """Return P(a of an image with the concept > a of one without), a tie counting one half."""
    return area_under_roc(pairs.activations, pairs.present)


def auprc(pairs: Pairs) -> FloatArray:
    """Return the average precision of c as the score for A."""
    return average_precision(pairs.concepts, pairs.active)


def inverse_auprc(pairs: Pairs) -> FloatArray:
    """Return the average precision of a as the score for C."""
    return average_precision(pairs.activations, pairs.present)


def area_under_roc(scores: Columns, labels: BoolArray) -> FloatArray:
    """Return the area under the ROC curve of scores for labels (U, N), by midranks."""
    n = labels.sum(axis=1, dtype=np.float64)
    ranks = np.einsum("un,un->u", scores.midranks, labels)
    return np.asarray((ranks - n * (n + 1) / 2) / (n * (labels.shape[1] - n)))


def average_precision(scores: Columns, labels: BoolArray) -> FloatArray:
    """Return the sum of precision times the step in recall, for labels (U, N); tied scores are one step."""
    ranked = np.take_along_axis(labels, scores.order, axis=1)
    found = np.take_along_axis(np.cumsum(ranked, axis=1), scores.block_end, axis=1)
    precision = found / (scores.block_end + 1)
    return np.asarray(np.einsum("un,un->u", precision, ranked) / ranked.sum(axis=1))
