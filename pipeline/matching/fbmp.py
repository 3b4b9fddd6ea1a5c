"""F-beta matching pursuit: for each attribute, the latents whose union covers it best, found greedily.

Source: Klotz, Dantas, Jain, Marcos, Demir, "Evaluating the Interpretability of Sparse Autoencoders with
Concept Annotations" (arXiv 2606.24716).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TypeAlias, overload

import numpy as np
from numpy.typing import ArrayLike

from pipeline.errors import AssayError
from pipeline.matching.codes import (
    BoolArray,
    Codes,
    FloatArray,
    IntArray,
    attribute_matrix,
    firing,
    without_dead,
)
from pipeline.matching.matching import Matching, empty_reasons, f1_scores
from pipeline.matching.overlaps import Overlaps, f_beta, overlaps, target_counts

Path: TypeAlias = tuple[IntArray, FloatArray]

RESIDUALS_AT_ONCE = 1 << 27


@overload
def fbmp(latents: Codes, attributes: ArrayLike, beta: float = 0.5, max_latents: int = 20) -> Matching: ...
@overload
def fbmp(
    latents: Codes, attributes: ArrayLike, beta: Sequence[float], max_latents: int = 20
) -> list[Matching]: ...
def fbmp(
    latents: Codes, attributes: ArrayLike, beta: float | Sequence[float] = 0.5, max_latents: int = 20
) -> Matching | list[Matching]:
    """Match latents (N, D) with attributes (N, A); a list of matchings for a list of betas.

    Each step takes the latent with the largest F_beta on the images of the attribute that are not covered
    yet: (1 + b^2) tp / (b^2 positives + firings), in float64, the lowest index on ties. From the second
    step on it is discarded, and the search ends, where the F1 of the union does not rise. A latent fires
    where it is above 0. An attribute without a positive or an overlap has an empty coalition and a reason.
    All betas share the sparse form and the first counts, so one call is cheaper than several.
    Raises AssayError for shapes that do not fit, values that are no attribute, a bad beta or max_latents.
    Source: arXiv 2606.24716, section 3.
    """
    betas = np.atleast_1d(np.asarray(beta, dtype=np.float64)).tolist()
    found = match(latents, attributes, betas=betas, max_latents=max_latents)
    return found[0] if np.ndim(beta) == 0 else found


def match(codes: Codes, attributes: ArrayLike, *, betas: Sequence[float], max_latents: int) -> list[Matching]:
    """Return the matching of each beta; see `fbmp`."""
    check_settings(betas, max_latents)
    alive, fires = without_dead(firing(codes))
    present = np.ascontiguousarray(attribute_matrix(attributes, fires.shape[0]).T)
    n_positive = np.count_nonzero(present, axis=1)
    own = overlaps(fires)
    paths: dict[tuple[int, int], Path] = {}
    for block in blocks(own, np.flatnonzero(n_positive), len(betas), fires.shape[0]):
        found = _search(own, present[block], np.asarray(betas, dtype=np.float64), max_latents)
        keys = [(i, attribute) for i in range(len(betas)) for attribute in block.tolist()]
        paths |= {key: (alive[latents], f1) for key, (latents, f1) in zip(keys, found, strict=True)}
    nothing = np.empty(0, dtype=np.int64), np.empty(0)
    return [
        _matching(
            [paths.get((i, a), nothing) for a in range(len(present))], float(beta), max_latents, n_positive
        )
        for i, beta in enumerate(betas)
    ]


def check_settings(betas: Sequence[float], max_latents: int) -> None:
    """Raise AssayError unless every beta is finite and at least 0, and max_latents at least 1."""
    for beta in betas:
        if not (math.isfinite(beta) and beta >= 0):
            raise AssayError(f"beta is {beta}; give a finite number of at least 0")
    if not betas:
        raise AssayError("there is no beta; give at least one, such as 0.5")
    if int(max_latents) != max_latents or max_latents < 1:
        raise AssayError(f"max_latents is {max_latents}; a coalition may hold at least 1 latent")


def blocks(own: Overlaps, attributes: IntArray, n_betas: int, n_images: int) -> Iterator[IntArray]:
    """Yield the attributes in blocks whose counts have a good size and whose residuals stay small."""
    n_rows = min(own.scores_at_once // max(len(own.n_firing), 1), RESIDUALS_AT_ONCE // n_images)
    size = max(n_rows // n_betas, 1)
    yield from (attributes[start : start + size] for start in range(0, len(attributes), size))


@dataclass
class _Searches:
    """Searches that go on: row r is one attribute with one beta."""

    row: IntArray
    beta: FloatArray
    counts: FloatArray
    residual: BoolArray
    cover: BoolArray
    n_positive: IntArray
    n_residual: IntArray
    n_cover: IntArray
    f1: FloatArray

    def those(self, going: BoolArray) -> "_Searches":
        """Return the searches of these rows."""
        if going.all():
            return self
        return _Searches(*(getattr(self, field.name)[going] for field in fields(self)))


def _search(own: Overlaps, targets: BoolArray, betas: FloatArray, max_latents: int) -> list[Path]:
    """Return the latents and F1 of each target (T, N) with each beta: all targets of the first one first."""
    live = _start(own, targets, betas)
    shape = len(live.row), min(max_latents, len(own.n_firing))
    latents, f1 = np.full(shape, -1, dtype=np.int64), np.full(shape, np.nan)
    for step in range(shape[1]):
        best = f_beta(live.counts, live.n_residual, own.n_firing, live.beta).argmax(axis=1)
        better = _extend(own, live, best)
        latents[live.row[better], step] = best[better]
        f1[live.row[better], step] = live.f1[better]
        live = live.those(better & (live.n_residual > 0))
        if not len(live.row):
            break
    return [(path[path >= 0], scores[path >= 0]) for path, scores in zip(latents, f1, strict=True)]


def _start(own: Overlaps, targets: BoolArray, betas: FloatArray) -> _Searches:
    residual = np.tile(targets, (len(betas), 1))
    n_positive = np.count_nonzero(residual, axis=1)
    return _Searches(
        row=np.arange(len(residual)),
        beta=np.repeat(betas, len(targets)),
        counts=np.tile(target_counts(own, targets), (len(betas), 1)),
        residual=residual,
        cover=np.zeros_like(residual),
        n_positive=n_positive,
        n_residual=n_positive.copy(),
        n_cover=np.zeros_like(n_positive),
        f1=np.zeros(len(residual)),
    )


def _extend(own: Overlaps, live: _Searches, latents: IntArray) -> BoolArray:
    """Add a latent to each search where its F1 rises; return where. The others are left unusable."""
    n_rows, n_images = live.residual.shape
    place, image = own.images_of(latents)
    cell = place * n_images + image
    residual, cover = live.residual.reshape(-1), live.cover.reshape(-1)
    hit, new = residual[cell], ~cover[cell]
    live.n_residual = live.n_residual - np.bincount(place[hit], minlength=n_rows)
    live.n_cover = live.n_cover + np.bincount(place[new], minlength=n_rows)
    f1 = f1_scores(live.n_positive - live.n_residual, live.n_cover, live.n_positive)
    better = np.asarray(f1 > live.f1)
    live.f1 = f1
    leaving = hit & better[place]
    residual[cell[leaving]] = False
    cover[cell] = True
    own.add(live.counts, place[leaving], image[leaving], -1.0)
    return better


def _matching(found: list[Path], beta: float, max_latents: int, n_positive: IntArray) -> Matching:
    coalitions = [latents for latents, _ in found]
    reasons = empty_reasons(n_positive, coalitions)
    return Matching(coalitions, [f1 for _, f1 in found], beta, max_latents, reasons)
