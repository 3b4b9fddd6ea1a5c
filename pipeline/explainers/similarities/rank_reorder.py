"""Rank reorder: how little a unit's top activations change when a concept's cosines rank the images."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from pipeline.explainers.explanations import Columns
from pipeline.explainers.similarities.cosines import Block, Cosines, slices, unit_blocks
from pipeline.explainers.similarities.most_active import most_active

UNSCORED = "its most active images all have one activation, or no concept has a positive mean cosine on them"
TOP_SHARE = 0.05
MEAN_POWER = 0.5
CACHE_BYTES = 1 << 19


@dataclass(frozen=True, eq=False)
class _Unit:
    """A unit's n most active images by rising index, the rank of each by falling activation, activations.

    `falling` (n,) is float64; `baseline` the mean cubed difference of two of them, drawn with replacement.
    """

    images: NDArray[np.intp]
    places: NDArray[np.uint32]
    falling: NDArray[np.float64]
    baseline: float


def scores(
    activations: Columns,
    cosines: Cosines,
    units: Sequence[int],
    *,
    top: int | None = None,
    threads: int = 1,
) -> Iterator[Block]:
    """Yield minus the rank-reorder error of `units` and concepts: 0 where both rank the images alike.

    With a unit's n = min(top, N) most active images (of equal activations the lower index first; n is the
    whole part of .05 N where `top` is None, and at least 1), their activations a, and a~ the same values
    dealt out anew so that the image of the j-th highest cosine gets the j-th highest of them:

        score(k, t) = - (mean_i |a_i - a~_i|^3 / mean_ij |a_i - a_j|^3) / sqrt(mean_i c_it)

    Of equal cosines the lower image index ranks lower. The exponents 3 and .5 are the defaults of the
    authors' code. It differs in three things. There the divisor, which is the same for all concepts of a
    unit, is the mean over five random permutations; here it is their expected value, over all n^2 pairs, so
    that nothing is drawn. There a negative mean cosine gives NaN, which its sort takes for the highest score;
    here a concept without a positive mean cosine has no score. Where the n activations are all equal, no
    concept has one.

    Sums are float64; the cosines have the type of the embeddings. The cost is U T n log n, by far the largest
    of the similarities: a smaller `top` makes it faster in proportion. `threads` share the work. Held are the
    units' images and activations, 20 n bytes each, and some blocks of 64 MiB.
    Source: Oikarinen and Weng, CLIP-Dissect, ICLR 2023 (arXiv 2204.10965), similarity "rank reorder".
    """
    n_images, n_concepts = cosines.shape
    size = min(top or max(1, int(TOP_SHARE * n_images)), n_images)
    ranked = _ranked(activations, units, size)
    scale = np.array([unit.baseline for unit in ranked])[:, None]
    centres = np.array([cosines.images[unit.images].mean(axis=0, dtype=np.float64) for unit in ranked])
    at_once = max(1, CACHE_BYTES // (8 * size))
    with ThreadPoolExecutor(threads) as pool:
        for concepts in slices(n_concepts, 8 * n_images):
            of_concepts = cosines.columns(concepts).T
            parts = [of_concepts[start : start + at_once] for start in range(0, len(of_concepts), at_once)]
            errors = np.concatenate(list(pool.map(partial(_errors, ranked), parts)), axis=1)
            mean = centres @ cosines.texts[concepts].astype(np.float64).T
            root = np.where(mean > 0, mean, np.nan) ** MEAN_POWER
            yield Block(slice(0, len(units)), concepts, 0 - errors / scale / root)


def _ranked(activations: Columns, units: Sequence[int], size: int) -> list[_Unit]:
    images = most_active(activations, units, size)
    ranked = []
    for block, rows in unit_blocks(activations, units):
        for row, chosen in zip(rows, images.T[block], strict=True):
            falling = row[chosen].astype(np.float64)
            order = np.argsort(chosen)
            ranked.append(_Unit(chosen[order], order.astype(np.uint32), falling, _baseline(falling)))
    return ranked


def _baseline(falling: NDArray[np.float64]) -> float:
    """Return the mean of |a_i - a_j|^3 over all pairs, i = j too; NaN where all are equal.

    Over j < i of rising x, the sum of (x_i - x_j)^3 is i x_i^3 - 3 x_i^2 S1 + 3 x_i S2 - S3 with the sums
    Sm of the powers x_j^m.
    """
    spread = falling[0] - falling[-1]
    if not spread:
        return float("nan")
    x = (falling[::-1] - falling.mean()) / spread
    n = np.arange(len(x))
    s1, s2, s3 = (np.cumsum(x**power) - x**power for power in (1, 2, 3))
    return float(2 * np.sum(n * x**3 - 3 * x**2 * s1 + 3 * x * s2 - s3) / len(x) ** 2 * spread**3)


def _errors(ranked: Sequence[_Unit], cosines: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the mean cubed change (u, t) of units' activations under the order of cosines (t, N)."""
    size = len(ranked[0].images)
    keys = _keys(cosines, size)
    low = keys.dtype.type((1 << (size - 1).bit_length()) - 1)
    errors = np.empty((len(ranked), len(keys)))
    for place, unit in enumerate(ranked):
        order = np.take(keys, unit.images, axis=1)
        order |= unit.places.astype(keys.dtype)
        order.sort(axis=1)
        change = np.take(unit.falling, order & low)
        change -= unit.falling[::-1]
        squared = change * change
        np.abs(change, out=change)
        errors[place] = np.einsum("tn,tn->t", squared, change) / size
    return errors


def _keys(cosines: NDArray[np.floating], size: int) -> NDArray[np.unsignedinteger]:
    """Return, for each concept and image (t, N), the rank of the cosine, shifted to leave room for a place.

    A key with a place in its low bits sorts by cosine and says afterwards which image it was.
    """
    n_images = cosines.shape[1]
    shift = (size - 1).bit_length()
    wide = (n_images - 1).bit_length() + shift > 32
    ranks = (np.arange(n_images) << shift).astype(np.uint64 if wide else np.uint32)
    keys = np.empty(cosines.shape, dtype=ranks.dtype)
    for key, values in zip(keys, cosines, strict=True):
        key[np.argsort(values, kind="stable")] = ranks
    return keys
