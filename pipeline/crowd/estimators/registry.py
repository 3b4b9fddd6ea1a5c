"""Estimators by name."""

from importlib import import_module
from typing import Protocol, cast

from pipeline.crowd.arrays import FloatArray
from pipeline.crowd.estimators.sample import Population, Sample
from pipeline.errors import AssayError

TARGETS = {
    "importance": "rated",
    "self_normalised": "rated",
    "horvitz_thompson": "rated",
    "difference": "rated",
    "disattenuated": "truth",
}
"""What each estimator's interval is about.

rated: the score if every image were rated by as many such raters and aggregated alike. truth: the
correlation with the presence itself, 0 or 1.
"""
NAMES = (*TARGETS, "combined")
PREDICTING = ("difference", "disattenuated", "combined")
"""Those that need the scorer's probabilities, of the draws and over all images."""


class Estimator(Protocol):
    """A ratio of means: of terms over the draws, and of what is known of all images."""

    def terms(self, sample: Sample, population: Population | None) -> FloatArray:
        """Return the terms (..., K, n) whose means over the draws the estimate depends on."""

    def correlation(
        self, moments: FloatArray, population: Population | None
    ) -> tuple[FloatArray, FloatArray]:
        """Return the estimate (...,) and its gradient (..., K) at means (..., K)."""


def estimator(name: str) -> Estimator:
    """Return the estimator of that name; AssayError where there is none."""
    if name not in TARGETS:
        raise AssayError(f"unknown estimator {name!r}; known: {', '.join(TARGETS)}")
    return cast(Estimator, import_module(f"pipeline.crowd.estimators.{name}"))
