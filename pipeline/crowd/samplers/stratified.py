"""Stratified sampling: strata of equal total score, the most draws where the score is highest."""

import numpy as np
from numpy.typing import ArrayLike

from pipeline.crowd.arrays import FloatArray, IntArray
from pipeline.crowd.proposal import active_proposal, uniform_reasons
from pipeline.crowd.samplers.draws import Draws, check_n_inputs
from pipeline.errors import AssayError

LEAST = 2
"""Draws a stratum: its variance cannot be told from fewer."""


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
    more draws than images. Fewer strata where n_inputs is less than twice n_strata; without any score,
    one stratum and the flags `uniform_proposal` and the reason. Raises AssayError as `active_proposal`
    does, for n_inputs < 1, and without replacement for n_inputs > N.
    Source: Neyman (1934), allocation; Dalenius and Hodges (1959), strata of equal cumulated score.
    """
    check_n_inputs(n_inputs)
    score = active_proposal(activation, probability, 1e-9, floor, mgis_share=0.0)
    if not replacement and n_inputs > len(score):
        raise AssayError(
            f"n_inputs is {n_inputs} but there are {len(score)} images; without replacement an image is "
            "drawn once, so lower sampler.n_inputs"
        )
    reasons = uniform_reasons(activation, probability)
    stratum = strata(score, 1 if reasons else min(n_strata, max(1, n_inputs // LEAST)))
    sizes = np.bincount(stratum)
    totals = np.bincount(stratum, score).astype(np.float64)
    allocation = allocated(totals, sizes, n_inputs, replacement)
    chosen = [
        rng.choice(np.flatnonzero(stratum == code), size=n, replace=replacement)
        for code, n in enumerate(allocation)
    ]
    indices = np.concatenate(chosen).astype(np.int64)
    q = (allocation / (n_inputs * sizes))[stratum]
    flags = ("uniform_proposal", *reasons) if reasons else ()
    inclusion = None if replacement else (allocation / sizes)[stratum[indices]]
    return Draws(q, indices, flags, stratum=stratum[indices], inclusion=inclusion)


def strata(score: FloatArray, n_strata: int) -> IntArray:
    """Return each image's stratum (N,), 0 the lowest: equal total scores, two images or more in each."""
    order = np.argsort(score, kind="stable")
    shares = np.cumsum(score[order]) / score.sum()
    place = np.minimum((shares * n_strata).astype(np.int64), n_strata - 1)
    code, size = np.zeros(len(score), dtype=np.int64), 0
    for i in range(1, len(score)):
        size += 1
        ends = place[i] != place[i - 1] and size >= LEAST and len(score) - i >= LEAST
        code[i] = code[i - 1] + ends
        size = 0 if ends else size
    stratum = np.empty_like(code)
    stratum[order] = code
    return stratum


def allocated(score: FloatArray, sizes: IntArray, n_inputs: int, replacement: bool) -> IntArray:
    """Return the draws of each stratum: by total score, at least two, n_inputs in all.

    Leftovers go to the largest remainders, the higher stratum first among equals.
    """
    least = np.full(len(score), min(LEAST, n_inputs // len(score)), dtype=np.int64)
    most = np.full(len(score), n_inputs) if replacement else sizes
    given = np.minimum(least, most)
    while (left := n_inputs - int(given.sum())) > 0:
        open_ = given < most
        share = np.where(open_, score, 0) + np.where(open_, 1e-12, 0)
        wanted = left * share / share.sum()
        step = np.minimum(np.floor(wanted).astype(np.int64), most - given)
        if not step.any():
            order = np.lexsort((-np.arange(len(score)), -np.where(open_, wanted, -1)))
            step[order[: min(left, int(open_.sum()))]] = 1
        given = given + step
    return given
