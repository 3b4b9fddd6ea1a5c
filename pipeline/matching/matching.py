"""A matching: for each attribute the latents that stand for it, in the order in which they were chosen."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from pipeline.errors import AssayError
from pipeline.matching.codes import (
    BoolArray,
    Codes,
    FloatArray,
    IntArray,
    attribute_matrix,
    columns_of,
    firing,
)

NO_POSITIVE = "no positive"
NO_OVERLAP = "no overlap"


@dataclass(frozen=True, eq=False)
class Matching:
    """Coalitions of A attributes: an attribute is predicted where one of its latents fires.

    coalitions: A index arrays, in order of choice. f1: A arrays, the F1 on the matched images after each
    choice. beta: that of the choice, NaN where the matcher has none. max_latents: the longest that a
    coalition could grow. reasons: why a coalition is empty ("no positive", "no overlap"), else "".
    """

    coalitions: list[IntArray]
    f1: list[FloatArray]
    beta: float
    max_latents: int
    reasons: tuple[str, ...]

    @property
    def n_attributes(self) -> int:
        """A."""
        return len(self.coalitions)

    def predict(self, codes: Codes, k: int) -> BoolArray:
        """Return which attributes the first k latents of each coalition predict for codes (N, D), (N, A).

        A coalition shorter than k is used whole; an empty one predicts nothing. Raises AssayError for
        k below 1 and for codes of another SAE.
        """
        check_sizes([k])
        columns = self.columns(codes)
        predicted = np.zeros((columns.shape[0], self.n_attributes), dtype=np.bool_)
        for attribute in range(self.n_attributes):
            steps = self.steps(columns, attribute, k)
            if len(steps):
                predicted[:, attribute] = steps[-1]
        return predicted

    def counts(self, codes: Codes, attributes: ArrayLike, k: int) -> tuple[IntArray, IntArray]:
        """Return how often the first 1 .. k latents predict rightly, and at all: (A, k) and (A, k).

        Raises AssayError as `predict`, and where the attributes (N, A) do not fit the codes (N, D).
        """
        check_sizes([k])
        columns = self.columns(codes)
        present = self.check_attributes(attributes, columns.shape[0])
        right, predicted = (np.zeros((self.n_attributes, k), dtype=np.int64) for _ in range(2))
        for attribute in range(self.n_attributes):
            steps = self.steps(columns, attribute, k)
            if len(steps):
                places = np.minimum(np.arange(k), len(steps) - 1)
                right[attribute] = np.count_nonzero(steps & present[:, attribute], axis=1)[places]
                predicted[attribute] = np.count_nonzero(steps, axis=1)[places]
        return right, predicted

    def columns(self, codes: Codes) -> "sp.csc_array[Any]":
        """Return what `steps` reads of the codes (N, D): where they fire."""
        return sp.csc_array(firing(codes))

    def steps(self, columns: "sp.csc_array[Any]", attribute: int, k: int) -> BoolArray:
        """Return what the first 1, 2, ... k latents predict for N images, (at most k, N)."""
        fires = columns_of(columns, self.coalitions[attribute][:k])
        return np.asarray(np.logical_or.accumulate(fires, axis=0))

    def check_attributes(self, attributes: ArrayLike, n_images: int) -> BoolArray:
        """Return the attributes (N, A) as bool; AssayError unless they are those that were matched."""
        present = attribute_matrix(attributes, n_images)
        if present.shape[1] != self.n_attributes:
            raise AssayError(
                f"there are {present.shape[1]} attributes, but {self.n_attributes} were matched; "
                "give the same columns in the same order"
            )
        return present


def check_sizes(ks: list[int]) -> None:
    """Raise AssayError unless every k is a whole number of at least 1."""
    for k in ks:
        if int(k) != k or k < 1:
            raise AssayError(f"k is {k}; the first k latents of a coalition are at least 1")


def empty_reasons(n_positive: IntArray, coalitions: list[IntArray]) -> tuple[str, ...]:
    """Return why each of A coalitions is empty, "" where it is not."""
    return tuple(
        "" if len(own) else NO_OVERLAP if n else NO_POSITIVE
        for n, own in zip(n_positive, coalitions, strict=True)
    )


def f1_scores(right: IntArray, predicted: IntArray, n_positive: IntArray) -> FloatArray:
    """Return 2 right / (positive + predicted) of arrays that broadcast, 0 where nothing is either."""
    total = np.asarray(n_positive + predicted, dtype=np.float64)
    return np.asarray(np.divide(2.0 * right, total, out=np.zeros(total.shape), where=total > 0))
