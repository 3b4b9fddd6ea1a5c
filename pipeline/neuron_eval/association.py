"""Metrics of the two vectors themselves: correlations and the cosine. Each returns (U,).

Source: NeuronEval (arXiv 2506.05774).
"""

from collections.abc import Iterator

import numpy as np

from pipeline.neuron_eval.columns import BoolArray, Columns, FloatArray
from pipeline.neuron_eval.pairs import Pairs


def correlation(pairs: Pairs) -> FloatArray:
    """Return Pearson's correlation of a and c."""
    return pearson(pairs.activations.values, pairs.concepts.values)


def spearman(pairs: Pairs) -> FloatArray:
    """Return Pearson's correlation of the midranks of a and c."""
    return pearson(pairs.activations.midranks, pairs.concepts.midranks)


def cosine(pairs: Pairs) -> FloatArray:
    """Return the cosine of a and c, neither of them centred."""
    return _cosine(pairs.activations.values, pairs.concepts.values)


def correlation_top_and_random(pairs: Pairs) -> FloatArray:
    """Return Pearson's correlation over `Pairs.top_and_random`."""
    return np.concatenate([pearson(a.values, c.values) for a, c in _samples(pairs)])


def spearman_top_and_random(pairs: Pairs) -> FloatArray:
    """Return Spearman's correlation over `Pairs.top_and_random`, with ranks among those images."""
    return np.concatenate([pearson(a.midranks, c.midranks) for a, c in _samples(pairs)])


def constant_sample(pairs: Pairs) -> BoolArray:
    """Return whether a or c is constant over `Pairs.top_and_random`, (U,)."""
    return np.concatenate([a.constant | c.constant for a, c in _samples(pairs)])


def pearson(left: FloatArray, right: FloatArray) -> FloatArray:
    """Return the correlation of each row of left (U, N) with that of right (U, N)."""
    centred = [values - values.mean(axis=1, keepdims=True) for values in (_scaled(left), _scaled(right))]
    return _cosine(*centred)


def _cosine(left: FloatArray, right: FloatArray) -> FloatArray:
    a, b = _scaled(left), _scaled(right)
    lengths = np.sqrt(np.einsum("un,un->u", a, a) * np.einsum("un,un->u", b, b))
    return np.asarray(np.clip(np.einsum("un,un->u", a, b) / lengths, -1, 1), dtype=np.float64)


def _scaled(values: FloatArray) -> FloatArray:
    """Divide each row by its largest magnitude, so that neither huge nor tiny values overflow."""
    peak = np.abs(values).max(axis=1, keepdims=True)
    return np.asarray(values / np.where(peak > 0, peak, 1))


def _samples(pairs: Pairs) -> Iterator[tuple[Columns, Columns]]:
    for u, images in enumerate(pairs.top_and_random):
        yield (
            Columns(pairs.activations.values[u : u + 1, images]),
            Columns(pairs.concepts.values[u : u + 1, images]),
        )
