"""Soft-WPMI: mutual information where an active image shows the concept only probably."""

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from pipeline.explainers.explanations import Columns
from pipeline.explainers.similarities.cosines import Block, Cosines
from pipeline.explainers.similarities.most_active import most_active
from pipeline.explainers.similarities.mutual_information import FLOOR, mutual_information

UNSCORED = "no concept has a soft-WPMI"
FIRST_INCLUSION = 0.998
LAST_INCLUSION = 0.97
RANKS_PER_LOG = 100
UNITS_AT_ONCE = 128


def scores(
    activations: Columns,
    cosines: Cosines,
    units: Sequence[int],
    *,
    top: int = 100,
    lam: float = 1.0,
    temperature: float = 10.0,
) -> Iterator[Block]:
    """Yield the soft weighted pointwise mutual information of `units` and concepts.

    With P = softmax over the T concepts of `temperature` times the cosine, and a unit's B = min(top, N)
    most active images at ranks r = 0..B-1 (of equal activations the lower image index first):

        L(k, t) = sum_r log(1 + p_r (P(image at rank r, t) - 1) + 1e-7)
        score(k, t) = L(k, t) - lam log mean_k' exp L(k', t), the mean over all U units of the layer

    p_r = .998 - (.998 - .97) r / B is how surely the r-th image shows the concept. So the last image has
    .998 - .028 (B - 1) / B, and .97 itself is never reached: .97028 for B = 100, as in the authors' code.

    Sums are float64; the cosines have the type of the embeddings. Source: Oikarinen and Weng, CLIP-Dissect,
    ICLR 2023 (arXiv 2204.10965), soft-WPMI; the constants are the defaults of the authors' code, which
    breaks ties of activations as its sort happens to.
    """
    images = most_active(activations, range(activations.shape[1]), top)
    likelihood = partial(log_likelihood, inclusion=inclusion_probabilities(len(images)))
    return mutual_information(images, cosines, units, likelihood, lam=lam, temperature=temperature)


def inclusion_probabilities(n: int) -> NDArray[np.float64]:
    """Return p_r = .998 - .028 r / n for the ranks r = 0..n-1."""
    return FIRST_INCLUSION - np.arange(n) / n * (FIRST_INCLUSION - LAST_INCLUSION)


def log_likelihood(
    probability: NDArray[np.float64], images: NDArray[np.intp], inclusion: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return L, (U, t), from P (n, t), the images by rank (B, U) and p (B,)."""
    total = np.empty((images.shape[1], probability.shape[1]))
    for start in range(0, len(total), UNITS_AT_ONCE):
        block = slice(start, start + UNITS_AT_ONCE)
        total[block] = _of_units(probability, images[:, block], inclusion)
    return total


def _of_units(
    probability: NDArray[np.float64], images: NDArray[np.intp], inclusion: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return L of some units.

    A factor is at least 1 - .998, so a product over 100 ranks stays above 1e-270: one logarithm per
    100 ranks is enough.
    """
    total = np.zeros((images.shape[1], probability.shape[1]))
    factor = np.empty_like(total)
    for ranks in range(0, len(images), RANKS_PER_LOG):
        product = np.ones_like(total)
        block = slice(ranks, ranks + RANKS_PER_LOG)
        for chosen, p in zip(images[block], inclusion[block], strict=True):
            np.take(probability, chosen, axis=0, out=factor, mode="clip")
            factor *= p
            factor += 1 - p + FLOOR
            product *= factor
        total += np.log(product)
    return total
