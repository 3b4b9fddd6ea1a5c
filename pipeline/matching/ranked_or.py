"""The best single latents of an attribute, joined by OR: ranked once, by their own F_beta.

Source: arXiv 2606.24716, the baseline that ranks latents alone and not by what they add.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from pipeline.matching.codes import (
    Codes,
    FloatArray,
    IntArray,
    attribute_matrix,
    firing,
    without_dead,
)
from pipeline.matching.fbmp import blocks, check_settings
from pipeline.matching.matching import Matching, empty_reasons, f1_scores
from pipeline.matching.overlaps import f_beta, overlaps, target_counts


def match(codes: Codes, attributes: ArrayLike, *, betas: Sequence[float], max_latents: int) -> list[Matching]:
    """Match codes (N, D) with attributes (N, A): one matching a beta.

    A coalition holds the max_latents latents with the largest F_beta that overlap with the attribute,
    largest first, the lowest index on ties. Nothing is discarded, so F1 may fall along it.
    Raises AssayError as `fbmp`.
    """
    check_settings(betas, max_latents)
    alive, fires = without_dead(firing(codes))
    present = np.ascontiguousarray(attribute_matrix(attributes, fires.shape[0]).T)
    n_positive = np.count_nonzero(present, axis=1)
    own = overlaps(fires)
    coalitions: list[list[IntArray]] = [[] for _ in betas]
    for block in blocks(own, np.arange(len(present)), 1, fires.shape[0]):
        counts = target_counts(own, present[block])
        for found, beta in zip(coalitions, betas, strict=True):
            scores = f_beta(counts, n_positive[block], own.n_firing, np.full(len(block), float(beta)))
            found += [alive[best_first(row, max_latents)] for row in scores]
    return [
        _with_f1(found, codes, attributes, float(beta), max_latents, n_positive)
        for found, beta in zip(coalitions, betas, strict=True)
    ]


def best_first(scores: FloatArray, n: int) -> IntArray:
    """Return the places of the n largest scores (D,) above 0, largest first, the lower place on ties."""
    last = max(len(scores) - n, 0)
    kept = np.flatnonzero((scores >= np.partition(scores, last)[last]) & (scores > 0))
    return kept[np.argsort(-scores[kept], kind="stable")][:n]


def _with_f1(
    coalitions: list[IntArray],
    codes: Codes,
    attributes: ArrayLike,
    beta: float,
    max_latents: int,
    n_positive: IntArray,
) -> Matching:
    reasons = empty_reasons(n_positive, coalitions)
    matching = Matching(coalitions, [], beta, max_latents, reasons)
    longest = max([1, *map(len, coalitions)])
    scores = f1_scores(*matching.counts(codes, attributes, longest), n_positive[:, None])
    f1 = [row[: len(own)] for row, own in zip(scores, coalitions, strict=True)]
    return Matching(coalitions, f1, beta, max_latents, reasons)
