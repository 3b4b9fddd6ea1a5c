"""Stratified sampling: strata of equal total score, the most draws where the score is highest."""

import numpy as np
from numpy.typing import ArrayLike

from pipeline.crowd.arrays import FloatArray, IntArray, is_constant
from pipeline.crowd.proposal import active_proposal, uniform_reasons
from pipeline.crowd.samplers.draws import Draws, check_n_inputs
from pipeline.errors import AssayError

LEAST = 2
"""Draws a stratum: its variance cannot be told from fewer."""
ROUNDING = 1e-9


def draw(
    activation: ArrayLike,
    probability: ArrayLike,
    rng: np.random.Generator,
    *,
    n_inputs: int,
    n_strata: int = 10,
    floor: float = 0.1,
    replacement: bool = True,
) -> Draws:
    """Draw n_inputs images, uniformly within strata of the active score.

    activation (N,), probability (N,). Images sorted by the score of `active_proposal` fall into at most
    n_strata strata of equal total score, each of at least two images. Draws go to the strata by their
    total score, at least two each. Without replacement a stratum gives no image twice, so it gets no
    more draws than images; rng gives every image its own number, as in `draw_from`. Fewer strata where
    n_inputs is less than twice n_strata; without any score, one stratum and the flags `uniform_proposal`
    and the reason. Raises AssayError as `active_proposal` does, for n_inputs < 1, and without replacement
    for n_inputs > N.
    Source: Neyman (1934), allocation; Dalenius and Hodges (1959), strata of equal cumulated score.
    """
    check_n_inputs(n_inputs)
    score = active_proposal(activation, probability, 1e-9, floor, mgis_share=0.0)
    if not replacement and n_inputs > len(score):
        raise AssayError(
            f"n_inputs is {n_inputs} but there are {len(score)} images; without replacement an image is "
            "drawn once, so lower sampler.n_inputs"
        )
    reasons = uniform_reasons(activation, probability) if is_constant(score) else ()
    stratum = strata(score, 1 if reasons else min(n_strata, max(1, n_inputs // LEAST)))
    sizes = np.bincount(stratum)
    totals = np.bincount(stratum, score).astype(np.float64)
    allocation = allocated(totals, sizes, n_inputs, replacement)
    indices = (_with if replacement else _without)(stratum, allocation, rng)
    q = (allocation / (n_inputs * sizes))[stratum]
    flags = ("uniform_proposal", *reasons) if reasons else ()
    inclusion = None if replacement else (allocation / sizes)[stratum[indices]]
    return Draws(q, indices, flags, stratum=stratum[indices], inclusion=inclusion)


def strata(score: FloatArray, n_strata: int) -> IntArray:
    """Return each image's stratum (N,), 0 the lowest: equal total scores, two images or more in each.

    An image whose score spans a boundary goes to the side of its middle; of equal scores the lower index
    comes first.
    """
    order = np.argsort(score, kind="stable")
    middles = (np.cumsum(score[order]) - score[order] / 2) / score.sum()
    place = np.minimum((middles * n_strata).astype(np.int64), n_strata - 1)
    cuts: list[int] = [0]
    for cut in np.flatnonzero(np.diff(place)) + 1:
        if cut - cuts[-1] >= LEAST and len(score) - cut >= LEAST:
            cuts.append(int(cut))
    stratum = np.empty(len(score), dtype=np.int64)
    stratum[order] = np.searchsorted(cuts, np.arange(len(score)), side="right") - 1
    return stratum


def allocated(score: FloatArray, sizes: IntArray, n_inputs: int, replacement: bool) -> IntArray:
    """Return the draws of each stratum (H,): n_inputs in all, in proportion to its total score (H,).

    At least two each where n_inputs allows, and without replacement at most its size (H,); the others
    share what this leaves. Fractions go to the largest remainders, the higher stratum first among equals.
    """
    most = np.full(len(score), n_inputs) if replacement else sizes
    least = np.minimum(min(LEAST, n_inputs // len(score)), most)
    ends = np.sort(np.concatenate([least / score, most / score]))
    totals = np.clip(ends[:, None] * score, least, most).sum(axis=1)
    wanted = np.clip(np.interp(n_inputs, totals, ends) * score, least, most)
    given = np.floor(wanted + ROUNDING).astype(np.int64)
    remainder = np.round(wanted - given, 9)
    order = np.lexsort((-np.arange(len(score)), -remainder))
    given[order[: n_inputs - int(given.sum())]] += 1
    return np.asarray(given, dtype=np.int64)


def _with(stratum: IntArray, allocation: IntArray, rng: np.random.Generator) -> IntArray:
    chosen = [rng.choice(np.flatnonzero(stratum == code), size=n) for code, n in enumerate(allocation)]
    return np.concatenate(chosen).astype(np.int64)


def _without(stratum: IntArray, allocation: IntArray, rng: np.random.Generator) -> IntArray:
    """Take each stratum's images of the smallest numbers: every image has one, as in `draw_from`."""
    order = np.lexsort((rng.random(len(stratum)), stratum))
    first = np.searchsorted(stratum[order], np.arange(len(allocation)))
    place = np.arange(len(stratum)) - first[stratum[order]]
    return np.asarray(order[place < allocation[stratum[order]]])
