"""The metrics of NeuronEval by name: what each computes, where it is undefined, and its range.

Source: NeuronEval (arXiv 2506.05774); the degenerate cases and the two ranges that depend on the
data are ours.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pipeline.errors import AssayError
from pipeline.neuron_eval import association, confusion, means, ranking
from pipeline.neuron_eval.columns import BoolArray, FloatArray
from pipeline.neuron_eval.pairs import ALPHA, PENALTY, Pairs, pairs

Scoring = Callable[[Pairs], FloatArray]
Bounds = Callable[[Pairs], tuple[FloatArray, FloatArray]]

# A reason, and the units it holds for. The first one that holds is the one that is told.
REASONS: dict[str, Callable[[Pairs], BoolArray]] = {
    "constant_activation": lambda own: own.activations.constant,
    "all_active": lambda own: own.n_active == own.n_images,
    "constant_concept": lambda own: own.concepts.constant,
    "zero_concept": lambda own: own.concepts.values.max(axis=1) == 0,
    "no_positive": lambda own: own.n_present == 0,
    "all_positive": lambda own: own.n_present == own.n_images,
    "constant_sample": association.constant_sample,
}


@dataclass(frozen=True, eq=False)
class Scores:
    """values (U,), NaN where undefined; reasons, U of them: a name in REASONS, or "" where defined."""

    values: FloatArray
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Metric:
    """One metric: its scores, the reasons for which a unit has none, and the range of the scores."""

    name: str
    scoring: Scoring
    undefined: tuple[str, ...]
    bounds: Bounds

    def __call__(
        self,
        activations: ArrayLike,
        concepts: ArrayLike,
        *,
        alpha: ArrayLike = ALPHA,
        penalty: float = PENALTY,
        seed: int | None = None,
    ) -> Scores:
        """Return the scores of activations (N,) or (N, U) with concepts of the same shape; see `pairs`."""
        return self.scores(pairs(activations, concepts, alpha=alpha, penalty=penalty, seed=seed))

    def scores(self, own: Pairs) -> Scores:
        """Return the scores of these pairs."""
        with np.errstate(divide="ignore", invalid="ignore"):
            values = self.scoring(own)
        holds = {reason: REASONS[reason](own) for reason in REASONS if reason in self.undefined}
        told = np.select(list(holds.values()), list(holds), default="")
        return Scores(np.where(told == "", values, np.nan), tuple(told.tolist()))


def between(low: float, high: float) -> Bounds:
    """Return the bounds of a metric whose range does not depend on the data."""
    return lambda own: (np.full(len(own.alpha), low), np.full(len(own.alpha), high))


def metric(name: str) -> Metric:
    """Return the metric of that name; AssayError where there is none."""
    if name not in METRICS:
        raise AssayError(f"unknown metric {name!r}; known: {', '.join(METRICS)}")
    return METRICS[name]


def _harmonic(name: str, first: Metric, second: Metric) -> Metric:
    """Return the harmonic mean of two metrics in [0, 1]: 0 where both are 0."""

    def scoring(own: Pairs) -> FloatArray:
        x, y = first.scoring(own), second.scoring(own)
        return np.where(x + y == 0, 0, 2 * x * y / (x + y))

    return Metric(name, scoring, (*first.undefined, *second.undefined), between(0, 1))


_UNIT, _SIGNED = between(0, 1), between(-1, 1)
_A, _C = ("constant_activation", "all_active"), ("constant_activation", "no_positive")
_BOTH = (*_A, "no_positive")
_VARYING = ("constant_activation", "constant_concept")

_SINGLE = {
    own.name: own
    for own in (
        Metric("recall", confusion.recall, _BOTH, _UNIT),
        Metric("precision", confusion.precision, _BOTH, _UNIT),
        Metric("f1", confusion.f1, _BOTH, _UNIT),
        Metric("iou", confusion.iou, _BOTH, _UNIT),
        Metric("accuracy", confusion.accuracy, _BOTH, _UNIT),
        Metric("balanced_accuracy", confusion.balanced_accuracy, _BOTH, _UNIT),
        Metric(
            "inverse_balanced_accuracy",
            confusion.inverse_balanced_accuracy,
            (*_BOTH, "all_positive"),
            _UNIT,
        ),
        Metric("auc", ranking.auc, _A, _UNIT),
        Metric("inverse_auc", ranking.inverse_auc, (*_C, "all_positive"), _UNIT),
        Metric("correlation", association.correlation, _VARYING, _SIGNED),
        Metric(
            "correlation_top_and_random",
            association.correlation_top_and_random,
            (*_VARYING, "constant_sample"),
            _SIGNED,
        ),
        Metric("spearman", association.spearman, _VARYING, _SIGNED),
        Metric(
            "spearman_top_and_random",
            association.spearman_top_and_random,
            (*_VARYING, "constant_sample"),
            _SIGNED,
        ),
        Metric("cosine", association.cosine, ("constant_activation", "zero_concept"), _SIGNED),
        Metric("wpmi", means.wpmi, (*_A, "zero_concept"), means.wpmi_bounds),
        Metric(
            "mean_activation_difference",
            means.mean_activation_difference,
            (*_C, "all_positive"),
            means.mean_activation_difference_bounds,
        ),
        Metric("auprc", ranking.auprc, _A, _UNIT),
        Metric("inverse_auprc", ranking.inverse_auprc, _C, _UNIT),
    )
}
COMBINED = {
    "combined_auc": ("auc", "inverse_auc"),
    "combined_balanced_accuracy": ("balanced_accuracy", "inverse_balanced_accuracy"),
    "recall_auc": ("recall", "auc"),
    "recall_inverse_auc": ("recall", "inverse_auc"),
    "precision_balanced_accuracy": ("precision", "balanced_accuracy"),
    "precision_inverse_balanced_accuracy": ("precision", "inverse_balanced_accuracy"),
}
METRICS = _SINGLE | {
    name: _harmonic(name, _SINGLE[first], _SINGLE[second]) for name, (first, second) in COMBINED.items()
}
NAMES = tuple(METRICS)
