"""WPMI: mutual information where every active image shows the concept."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from pipeline.explainers.explanations import Columns
from pipeline.explainers.similarities.cosines import Block, Cosines
from pipeline.explainers.similarities.most_active import most_active
from pipeline.explainers.similarities.mutual_information import FLOOR, mutual_information

UNSCORED = "no concept has a WPMI"
UNITS_AT_ONCE = 128


def scores(
    activations: Columns,
    cosines: Cosines,
    units: Sequence[int],
    *,
    top: int = 28,
    lam: float = 0.6,
    temperature: float = 2.0,
) -> Iterator[Block]:
    """Yield the weighted pointwise mutual information of `units` and concepts.

    With P = softmax over the T concepts of `temperature` times the cosine, and a unit's min(top, N) most
    active images (of equal activations the lower image index first):

        L(k, t) = sum over these images of log(P(image, t) + 1e-7)
        score(k, t) = L(k, t) - lam log mean_k' exp L(k', t), the mean over all U units of the layer

    Sums are float64; the cosines have the type of the embeddings. Source: Oikarinen and Weng, CLIP-Dissect,
    ICLR 2023 (arXiv 2204.10965), WPMI; the constants are the defaults of the authors' code, which breaks
    ties of activations as its sort happens to.
    """
    images = most_active(activations, range(activations.shape[1]), top)
    return mutual_information(images, cosines, units, log_likelihood, lam=lam, temperature=temperature)


def log_likelihood(probability: NDArray[np.float64], images: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return L, (U, t), from P (n, t) and the images by rank (B, U); P is overwritten."""
    probability += FLOOR
    logs = np.log(probability, out=probability)
    total = np.zeros((images.shape[1], logs.shape[1]))
    for start in range(0, len(total), UNITS_AT_ONCE):
        block = slice(start, start + UNITS_AT_ONCE)
        for chosen in images[:, block]:
            total[block] += logs[chosen]
    return total
