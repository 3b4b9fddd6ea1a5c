"""Monosemanticity score (MS): are the images at which a latent is active alike?

One of the checks that the SAE track checks in turn: `sanity` says whether it tells trained SAEs from others.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from pipeline.matching.codes import BoolArray, Codes, FloatArray, IntArray, Sparse
from pipeline.matching.real_codes import embeddings_of, real_codes, unit_rows

NEVER_FIRES = "never fires"
CONSTANT = "constant"
ONE_IMAGE = "one image"

LATENTS_AT_ONCE = 1024


@dataclass(frozen=True, eq=False)
class Monosemanticity:
    """MS of D latents.

    values: (D,) in [-1, 1], NaN where undefined. reasons: why ("never fires": every code is 0; "constant":
    every code is the same; "one image": a single image has a weight), else "".
    n_zero_embeddings: images whose embedding is all zero; their cosine with any image is taken as 0.
    """

    values: FloatArray
    reasons: tuple[str, ...]
    n_zero_embeddings: int

    @property
    def mean(self) -> float:
        """The mean over the latents that have a score, NaN if none has."""
        known = self.values[~np.isnan(self.values)]
        return float(known.mean()) if len(known) else float("nan")

    @property
    def n_undefined(self) -> int:
        """How many latents have no score."""
        return int(np.isnan(self.values).sum())


@dataclass(frozen=True)
class _Weights:
    """Sums over images of the weights a = (code - low) / (high - low), for some latents (L,).

    towards: (L, d), the sum of a times the unit embedding. squares: of a^2 over images that have an
    embedding; total and all_squares: of a and a^2 over all images. n_weighted: images with a above 0.
    """

    towards: FloatArray
    squares: FloatArray
    total: FloatArray
    all_squares: FloatArray
    low: FloatArray
    high: FloatArray
    n_weighted: IntArray


def monosemanticity(codes: Codes, embeddings: ArrayLike) -> Monosemanticity:
    """Return the MS of each latent: the mean cosine of two images, weighted by the product of their weights.

    codes: (N, D), real, dense or sparse; embeddings: (N, d) of the same images, from any encoder. A
    latent's weights are its codes scaled to [0, 1] between their least and greatest value over all N
    images (the zeros of a sparse matrix count; so do negative codes), a = (code - low) / (high - low). With
    unit embeddings X the sum over pairs i != j has the closed form
        (|X^T a|^2 - sum a_i^2) / ((sum a)^2 - sum a_i^2),
    linear in N, in float64. Raises AssayError for shapes that do not fit and values that are not finite.
    Source: Pach et al., "Sparse Autoencoders Learn Monosemantic Features in Vision-Language Models"
    (arXiv 2504.02821); the linear-time form is also in "MonoLoss" (arXiv 2602.12403).
    """
    real = real_codes(codes)
    unit, zero = unit_rows(embeddings_of(embeddings, real.shape[0]))
    starts = range(0, real.shape[1], LATENTS_AT_ONCE)
    parts = [slice(start, start + LATENTS_AT_ONCE) for start in starts]
    if isinstance(real, np.ndarray):
        scored = [_scores(_dense_weights(real.T[part], unit, ~zero)) for part in parts]
    else:
        by_latent = sp.csr_array(real.T)
        scored = [_scores(_sparse_weights(sp.csr_array(by_latent[part]), unit, ~zero)) for part in parts]
    values = np.concatenate([values for values, _ in scored])
    reasons = tuple(reason for _, own in scored for reason in own)
    return Monosemanticity(values, reasons, int(zero.sum()))


def _scores(weights: _Weights) -> tuple[FloatArray, list[str]]:
    above = np.einsum("ld,ld->l", weights.towards, weights.towards) - weights.squares
    below = weights.total**2 - weights.all_squares
    reasons = np.full(len(above), "", dtype=object)
    reasons[(weights.n_weighted == 1) | (below <= 0)] = ONE_IMAGE
    reasons[weights.low == weights.high] = CONSTANT
    reasons[(weights.low == 0) & (weights.high == 0)] = NEVER_FIRES
    known = reasons == ""
    values = np.full(len(above), np.nan)
    values[known] = np.clip(above[known] / below[known], -1.0, 1.0)
    return values, reasons.tolist()


def _dense_weights(by_latent: FloatArray, unit: FloatArray, embedded: BoolArray) -> _Weights:
    low, high = by_latent.min(axis=1), by_latent.max(axis=1)
    scaled = (by_latent - low[:, None]) / np.where(high > low, high - low, 1.0)[:, None]
    squares = scaled**2
    return _Weights(
        towards=scaled @ unit,
        squares=squares @ embedded.astype(np.float64),
        total=scaled.sum(axis=1),
        all_squares=squares.sum(axis=1),
        low=low,
        high=high,
        n_weighted=np.count_nonzero(scaled, axis=1),
    )


def _sparse_weights(by_latent: Sparse, unit: FloatArray, embedded: BoolArray) -> _Weights:
    """Return the sums without filling in the zeros: a = z / range + shift, shift the weight of a zero code.

    The shift is 0 for a latent without negative codes that is inactive somewhere, and then nothing cancels.
    """
    n_images = by_latent.shape[1]
    n_stored = np.diff(by_latent.indptr)
    low, high = (_extremes(by_latent, n_stored, n_images, at) for at in (np.minimum, np.maximum))
    span = np.where(high > low, high - low, 1.0)
    shift = -low / span
    latent = np.repeat(np.arange(len(span)), n_stored)
    scaled = (by_latent.data - low[latent]) / span[latent]
    gained = _sparse_like(by_latent, scaled - shift[latent])
    squares = _sparse_like(by_latent, scaled**2 - shift[latent] ** 2)
    has = embedded.astype(np.float64)
    return _Weights(
        towards=gained @ unit + shift[:, None] * unit.sum(axis=0),
        squares=squares @ has + shift**2 * has.sum(),
        total=np.asarray(gained.sum(axis=1)).ravel() + shift * n_images,
        all_squares=np.asarray(squares.sum(axis=1)).ravel() + shift**2 * n_images,
        low=low,
        high=high,
        n_weighted=np.bincount(latent[scaled > 0], minlength=len(span))
        + np.where(shift > 0, n_images - n_stored, 0),
    )


def _extremes(by_latent: Sparse, n_stored: IntArray, n_images: int, of: np.ufunc) -> FloatArray:
    """Return the least or greatest code of each latent, the zeros that are not stored included."""
    found = np.zeros(len(n_stored))
    filled = np.flatnonzero(n_stored)
    if len(filled):
        found[filled] = of.reduceat(by_latent.data, by_latent.indptr[filled])
    return np.where(n_stored < n_images, of(found, 0.0), found)


def _sparse_like(matrix: Sparse, values: FloatArray) -> Sparse:
    return sp.csr_array((values, matrix.indices, matrix.indptr), shape=matrix.shape)
