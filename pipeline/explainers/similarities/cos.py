"""Cosine similarity of a unit's activations and a concept's cosines over all images."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from pipeline.explainers.explanations import Columns
from pipeline.explainers.similarities.cosines import Block, Cosines, slices, unit_blocks

UNSCORED = "every concept's cosines are 0 on all images"


def scores(activations: Columns, cosines: Cosines, units: Sequence[int]) -> Iterator[Block]:
    """Yield the cosine similarity of `units` and concepts, in [-1, 1].

        score(k, t) = sum_i a_ik c_it / (|a_k| |c_t|), over all N images i

    for the activations a (N, U) and the cosines c (N, T). Nothing is centred and there are no top images, as
    in the authors' code: a unit that is active on average, like a concept that resembles every image, is
    compared by its mean above all. A concept whose cosines are all 0 has no score.

    The cosines themselves are never computed: c = E F', so a'c = (a'E) F' and |c_t|^2 = F_t (E'E) F_t' for
    the embeddings E of images and F of concepts. All in float64: beside the input E (N, d) and a'E are held.
    Source: Oikarinen and Weng, CLIP-Dissect, ICLR 2023 (arXiv 2204.10965), similarity "cos".
    """
    images = cosines.images.astype(np.float64)
    projected = _projected(activations, images, units)
    gram = images.T @ images
    n_concepts = cosines.shape[1]
    for concepts in slices(n_concepts, 8 * max(len(units), images.shape[1])):
        texts = cosines.texts[concepts].astype(np.float64)
        squares = np.einsum("td,td->t", texts @ gram, texts)
        norm = np.sqrt(np.where(squares > 0, squares, np.nan))
        yield Block(slice(0, len(units)), concepts, projected @ texts.T / norm)


def _projected(
    activations: Columns, images: NDArray[np.float64], units: Sequence[int]
) -> NDArray[np.float64]:
    """Return a_k'E / |a_k|, (u, d); NaN for a unit that is 0 everywhere."""
    result = np.empty((len(units), images.shape[1]))
    for block, rows in unit_blocks(activations, units):
        peak = np.abs(rows).max(axis=1, keepdims=True).astype(np.float64)
        scaled = rows / np.where(peak > 0, peak, np.nan)
        result[block] = scaled @ images / np.linalg.norm(scaled, axis=1, keepdims=True)
    return result
