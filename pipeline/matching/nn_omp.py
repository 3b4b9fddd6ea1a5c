"""Non-negative orthogonal matching pursuit: an attribute as a non-negative sum of real codes.

Source: arXiv 2606.24716, the baseline NN-OMP; the pursuit is that of Bruckstein, Elad, Zibulevsky (2008),
"On the uniqueness of nonnegative sparse solutions to underdetermined systems of equations".
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from pipeline.matching.codes import (
    BoolArray,
    Codes,
    FloatArray,
    IntArray,
    Sparse,
    attribute_matrix,
    columns_of,
    positive,
)
from pipeline.matching.fbmp import check_settings
from pipeline.matching.matching import Matching, empty_reasons, f1_scores

PRESENT = 0.5
AT_REST = 1e-10
"""A correlation up to this share of the attribute's length counts as none: the fit is at rest."""


@dataclass(frozen=True, eq=False)
class WeightedMatching(Matching):
    """Coalitions whose weighted codes predict: an attribute is present where the sum is above 1/2.

    weights: A arrays (L, L), L the length of the coalition; row s holds the weights of the codes of the first
    s + 1 latents, fitted together, and 0 for the others. beta is NaN.
    """

    weights: tuple[FloatArray, ...] = ()

    def columns(self, codes: Codes) -> "sp.csc_array[Any]":
        """Return what `steps` reads of the codes (N, D): those above 0."""
        return sp.csc_array(positive(codes))

    def steps(self, columns: "sp.csc_array[Any]", attribute: int, k: int) -> BoolArray:
        """Return what the first 1, 2, ... k latents predict for N images, (at most k, N)."""
        latents = self.coalitions[attribute][:k]
        weights = self.weights[attribute][: len(latents), : len(latents)]
        return np.asarray(weights @ columns_of(columns, latents) > PRESENT)


def match(codes: Codes, attributes: ArrayLike, *, betas: Sequence[float], max_latents: int) -> list[Matching]:
    """Match codes (N, D) with attributes (N, A): one matching, whatever the betas.

    With the columns of the codes at unit length, each step takes the latent that correlates most with what is
    left of the attribute, the lowest index on ties, and fits all weights again by non-negative least squares.
    It ends where no latent correlates, or at max_latents. Codes below 0 count as 0. F1 is that of the
    prediction, which may fall along a coalition. Raises AssayError as `fbmp`.
    """
    check_settings(betas, max_latents)
    values = positive(codes)
    present = attribute_matrix(attributes, values.shape[0])
    pursuit = _Pursuit(values)
    found = [pursuit.fit(column.astype(np.float64), max_latents) for column in present.T]
    n_positive = np.count_nonzero(present, axis=0)
    coalitions = [latents for latents, _ in found]
    matching = WeightedMatching(
        coalitions,
        [],
        math.nan,
        max_latents,
        empty_reasons(n_positive, coalitions),
        tuple(weights for _, weights in found),
    )
    longest = max([1, *map(len, coalitions)])
    scores = f1_scores(*matching.counts(values, present, longest), n_positive[:, None])
    matching.f1.extend(row[: len(own)] for row, own in zip(scores, coalitions, strict=True))
    return [matching]


class _Pursuit:
    """Columns of codes (N, D) at unit length; a latent that never fires correlates with nothing."""

    def __init__(self, values: Sparse) -> None:
        lengths = np.sqrt(np.bincount(values.indices, weights=values.data**2, minlength=values.shape[1]))
        self._scale = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
        self._unit = sp.csr_array(values @ sp.diags_array(self._scale))
        self._by_latent = self._unit.T.tocsr()

    def fit(self, target: FloatArray, max_latents: int) -> tuple[IntArray, FloatArray]:
        """Return the latents (L,) and the weights of their codes after each step (L, L)."""
        start = self._by_latent @ target
        correlation, least = start.copy(), AT_REST * np.linalg.norm(target)
        latents: list[int] = []
        gram = np.empty((0, len(start)))
        rows: list[FloatArray] = []
        while len(latents) < min(max_latents, len(start)):
            correlation[latents] = -np.inf
            best = int(correlation.argmax())
            if correlation[best] <= least:
                break
            latents.append(best)
            gram = np.vstack([gram, (self._by_latent[[best]] @ self._unit).toarray()])
            fitted = non_negative(gram[:, latents], start[latents])
            rows.append(fitted)
            correlation = start - fitted @ gram
        weights = np.zeros((len(latents), len(latents)))
        for step, fitted in enumerate(rows):
            weights[step, : step + 1] = fitted * self._scale[latents[: step + 1]]
        return np.array(latents, dtype=np.int64), weights


def non_negative(gram: FloatArray, products: FloatArray) -> FloatArray:
    """Return w >= 0 (L,) of least |X w - y|, from X^T X (L, L) and X^T y (L,).

    The square root of the Gram matrix stands for X: it has the same products, and L rows.
    """
    from scipy.optimize import nnls

    values, vectors = np.linalg.eigh(gram)
    kept = values > values[-1] * len(values) * np.finfo(np.float64).eps
    roots = np.sqrt(values[kept])
    return np.asarray(nnls(roots[:, None] * vectors[:, kept].T, (vectors[:, kept].T @ products) / roots)[0])
