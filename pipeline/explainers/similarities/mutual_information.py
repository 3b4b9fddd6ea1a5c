"""What soft-WPMI and WPMI share: concept probabilities, and the mean over the layer."""

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from pipeline.explainers.similarities.cosines import Block, Cosines, slices

FLOOR = 1e-7
"""What the authors' code adds to a probability before its logarithm."""

LogLikelihood = Callable[[NDArray[np.float64], NDArray[np.intp]], NDArray[np.float64]]
"""L (U, t) from the probabilities P (n, t) and each unit's images by rank (B, U), rows of P."""


def mutual_information(
    images: NDArray[np.intp],
    cosines: Cosines,
    units: Sequence[int],
    log_likelihood: LogLikelihood,
    *,
    lam: float,
    temperature: float,
) -> Iterator[Block]:
    """Yield L(k, t) - lam log mean_k' exp L(k', t), the mean over all units of the layer; of one unit L.

    `images` (B, U) are each unit's most active images by rank. P is the softmax over all T concepts of
    `temperature` times the cosine. Beside the embeddings of the images in use, two or three blocks of
    64 MiB are held (or of one concept, 8 bytes an image).
    """
    used, places = np.unique(images, return_inverse=True)
    places = places.reshape(images.shape)
    seen = cosines.of_images(used)
    normaliser = _log_normaliser(seen, temperature)
    for concepts in slices(cosines.shape[1], 8 * max(images.shape[1], len(used))):
        probability = seen.columns(concepts).astype(np.float64)
        probability *= temperature
        probability -= normaliser[:, None]
        logs = log_likelihood(np.exp(probability, out=probability), places)
        marginal = logsumexp(logs, axis=0) - math.log(len(logs)) if len(logs) > 1 else 0.0
        yield Block(slice(0, len(units)), concepts, logs[list(units)] - lam * marginal)


def _log_normaliser(cosines: Cosines, temperature: float) -> NDArray[np.float64]:
    """Return log sum_t exp(temperature cos) for each image, (N,)."""
    n_images, n_concepts = cosines.shape
    result = np.empty(n_images)
    for rows in slices(n_images, 8 * n_concepts):
        logits = cosines.rows(rows).astype(np.float64)
        logits *= temperature
        high = logits.max(axis=1)
        logits -= high[:, None]
        result[rows] = high + np.log(np.exp(logits, out=logits).sum(axis=1))
    return result
