"""CLIP-Dissect: the concept whose text best fits the unit's most active images."""

import math
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import logsumexp

from pipeline.errors import AssayError
from pipeline.explainers.explanations import (
    CONSTANT,
    Explanations,
    assemble,
    constant_units,
    require_selection,
)

FIRST_INCLUSION = 0.998
LAST_INCLUSION = 0.97
FLOOR = 1e-7
CHUNK_BYTES = 1 << 26
RANKS_PER_LOG = 100


def explain(
    activations: NDArray[np.floating],
    similarities: NDArray[np.floating],
    vocabulary: Sequence[str],
    units: Sequence[int],
    *,
    top: int = 100,
    lam: float = 1.0,
    temperature: float = 10.0,
) -> Explanations:
    """Give each unit the word of highest soft-WPMI; of equal ones the first in the vocabulary.

    `activations` is (N, U) for the *whole layer*, `similarities` (N, T) holds cosines, column t for
    `vocabulary[t]`. A word that stands twice is counted once, at its first place. The column `score` is
    the soft-WPMI, a log ratio without bounds. A unit of constant activation has no most active images:
    it is unexplained, but still counts in the mean over the layer. Raises AssayError for an activation
    that is NaN or infinite, for an empty vocabulary, and for a unit outside the layer.
    """
    units = require_selection(units, activations.shape[1])
    if not vocabulary:
        raise AssayError("clip_dissect has an empty vocabulary; set explainer.vocabulary to a list of words")
    if similarities.shape != (len(activations), len(vocabulary)):
        raise ValueError(f"similarities {similarities.shape}: want {(len(activations), len(vocabulary))}")
    constant = constant_units(activations, range(activations.shape[1]))
    words = list(dict.fromkeys(vocabulary))
    if len(words) < len(vocabulary):
        similarities = similarities[:, [vocabulary.index(word) for word in words]]
    scores = soft_wpmi(activations, similarities, top=top, lam=lam, temperature=temperature)
    explained = [unit for unit in units if unit not in constant]
    best = scores[explained].argmax(axis=1)
    described = pd.DataFrame(
        {
            "unit": explained,
            "description": [words[place] for place in best],
            "score": scores[explained, best],
        }
    )
    reasons = {unit: CONSTANT for unit in units if unit in constant}
    notes = _notes(len(activations), top, len(vocabulary) - len(words))
    return assemble("clip_dissect", units, described, reasons, notes)


def _notes(n_images: int, top: int, repeats: int) -> list[str]:
    notes = []
    if n_images < top:
        notes.append(f"clip_dissect: {n_images} images are fewer than top={top}, so all of them were used")
    if repeats:
        notes.append(f"clip_dissect: {repeats} repeated words of the vocabulary were counted once")
    return notes


def soft_wpmi(
    activations: NDArray[np.floating],
    similarities: NDArray[np.floating],
    *,
    top: int = 100,
    lam: float = 1.0,
    temperature: float = 10.0,
) -> NDArray[np.float64]:
    """Return the soft weighted pointwise mutual information of each unit and concept, (U, T).

    `activations` is (N, U) for the whole layer, `similarities` (N, T) holds cosines. With
    P = softmax over the T concepts of `temperature` times the cosine, and a unit's B = min(top, N) most
    active images at ranks r = 0..B-1 (of equal activations the lower image index first):

        L(k, t) = sum_r log(1 + p_r (P(image at rank r, t) - 1) + 1e-7)
        score(k, t) = L(k, t) - lam log mean_k' exp L(k', t), the mean over all U units

    p_r = .998 - (.998 - .97) r / B is how surely the r-th image shows the concept. So the last image has
    .998 - .028 (B - 1) / B, and .97 itself is never reached: .97028 for B = 100, as in the authors' code.

    Sums are float64. Memory beyond the result is bounded by two blocks of 64 MiB (or one column), never
    by N x T. Source: Oikarinen and Weng, CLIP-Dissect, ICLR 2023 (arXiv 2204.10965), soft-WPMI; the
    constants are the defaults of the authors' code.
    """
    images = most_active(activations, top)
    inclusion = inclusion_probabilities(len(images))
    normaliser = _log_normaliser(similarities, temperature)
    scores = np.empty((activations.shape[1], similarities.shape[1]))
    for columns in _slices(similarities.shape[1], 8 * max(len(similarities), activations.shape[1])):
        logits = temperature * similarities[:, columns].astype(np.float64)
        likelihood = _log_likelihood(np.exp(logits - normaliser[:, None]), images, inclusion)
        marginal = logsumexp(likelihood, axis=0) - math.log(len(likelihood))
        scores[:, columns] = likelihood - lam * marginal
    return scores


def inclusion_probabilities(n: int) -> NDArray[np.float64]:
    """Return p_r = .998 - .028 r / n for the ranks r = 0..n-1."""
    return FIRST_INCLUSION - np.arange(n) / n * (FIRST_INCLUSION - LAST_INCLUSION)


def most_active(activations: NDArray[np.floating], top: int) -> NDArray[np.intp]:
    """Return each unit's min(top, N) most active images by falling activation, (B, U).

    Of equal activations the lower image index comes first.
    """
    n_images, n_units = activations.shape
    size = min(top, n_images)
    images = np.empty((size, n_units), dtype=np.intp)
    for units in _slices(n_units, 8 * n_images):
        block = np.ascontiguousarray(activations[:, units].T)
        for place, column in enumerate(block, units.start):
            images[:, place] = _largest(column, size)
    return images


def _largest(values: NDArray[np.floating], size: int) -> NDArray[np.intp]:
    threshold = np.partition(values, len(values) - size)[len(values) - size]
    above = np.flatnonzero(values > threshold)
    level = np.flatnonzero(values == threshold)[: size - len(above)]
    return np.concatenate([above[np.argsort(-values[above], kind="stable")], level])


def _log_normaliser(similarities: NDArray[np.floating], temperature: float) -> NDArray[np.float64]:
    """Return log sum_t exp(temperature cos) for each image, (N,)."""
    result = np.empty(len(similarities))
    for rows in _slices(len(similarities), 8 * similarities.shape[1]):
        result[rows] = logsumexp(temperature * similarities[rows].astype(np.float64), axis=1)
    return result


def _log_likelihood(
    probability: NDArray[np.float64], images: NDArray[np.intp], inclusion: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return L, (U, T), from P (N, T), the images by rank (B, U) and p (B,).

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


def _slices(n: int, bytes_each: int) -> Iterator[slice]:
    size = max(1, CHUNK_BYTES // bytes_each)
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))
