"""Cosine similarity of the cubes of centred activations and centred cosines."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from pipeline.explainers.explanations import Columns
from pipeline.explainers.similarities.cosines import Block, Cosines, slices, unit_blocks

UNSCORED = "every concept's cosine is the same on all images"
HELD_BYTES = 1 << 30


def scores(activations: Columns, cosines: Cosines, units: Sequence[int]) -> Iterator[Block]:
    """Yield the cubed cosine similarity of `units` and concepts, in [-1, 1].

        score(k, t) = sum_i x_ik y_it / (|x_k| |y_t|),  x = (a - mean a)^3,  y = (c - mean c)^3

    for the activations a (N, U) and the cosines c (N, T), each centred over all N images. The cube keeps the
    sign and gives the strongest images the weight. The authors' code divides by no less than .001 where a
    norm of cubes is smaller, so that there a score depends on the unit's scale, and a concept of small spread
    (a standard deviation of .01 over 50,000 images) loses to one of larger spread. Here the norm is the norm;
    a concept whose cosine is the same on all images has no score.

    Sums are float64; the cosines have the type of the embeddings. The cubes of up to 1 GiB of units (8 bytes
    an image) and three blocks of 64 MiB are held; with more units the cosines are computed once a GiB.
    Source: Oikarinen, Das, Nguyen and Weng, Label-Free Concept Bottleneck Models, ICLR 2023
    (arXiv 2304.06129), "cos cubed"; in the authors' code of CLIP-Dissect too.
    """
    n_images, n_concepts = cosines.shape
    at_once = max(1, HELD_BYTES // (8 * n_images))
    for start in range(0, len(units), at_once):
        chosen = units[start : start + at_once]
        cubes = np.empty((len(chosen), n_images))
        for block, rows in unit_blocks(activations, chosen):
            cubes[block] = _cubes(rows)
        for concepts in slices(n_concepts, 8 * n_images):
            of_concepts = _cubes(np.ascontiguousarray(cosines.columns(concepts).T))
            yield Block(slice(start, start + len(chosen)), concepts, cubes @ of_concepts.T)


def _cubes(rows: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return each row's centred cubes, of length 1; NaN for a constant row."""
    constant = (rows == rows[:, :1]).all(axis=1)
    centred = rows - rows.mean(axis=1, keepdims=True, dtype=np.float64)
    peak = np.abs(centred).max(axis=1, keepdims=True)
    peak[constant] = np.nan
    centred /= peak
    cubes: NDArray[np.float64] = centred * centred
    cubes *= centred
    cubes /= np.linalg.norm(cubes, axis=1, keepdims=True)
    return cubes
