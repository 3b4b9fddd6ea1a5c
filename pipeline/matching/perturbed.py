"""Codes of pairs of images that differ in an attribute: what is checked, and what coalitions do on them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from pipeline.errors import AssayError
from pipeline.matching.codes import Codes, FloatArray, IntArray, Sparse, check_latents, positive
from pipeline.matching.matching import check_sizes

NONE = -1


@dataclass(frozen=True, eq=False)
class PerturbedPairs:
    """P checked pairs: codes before and after (P, D) in [0, 1], attributes, the first k of each coalition.

    added and removed (P,) number an attribute, -1 where a pair has none. latents (A + 1, up to k): those of
    each coalition, filled up with -1; the last row, that of attribute -1, is all -1.
    """

    before: Sparse
    after: Sparse
    added: IntArray
    removed: IntArray
    latents: IntArray

    @property
    def n_attributes(self) -> int:
        """A."""
        return len(self.latents) - 1

    def changes(self, rows: IntArray, latents: IntArray) -> FloatArray:
        """Return max after - max before of latents (R, k) at pairs `rows` (R,), 0 where all are -1."""
        return activations(self.after, rows, latents) - activations(self.before, rows, latents)


def activations(codes: Sparse, rows: IntArray, latents: IntArray) -> FloatArray:
    """Return the largest code of latents (R, k) at rows (R,) of codes (P, D); a latent of -1 counts as 0."""
    n_pairs, n_latents = codes.shape
    filled = np.repeat(np.arange(n_pairs), np.diff(codes.indptr)) * n_latents + codes.indices
    asked = rows[:, None] * n_latents + latents
    places = np.searchsorted(filled, asked)
    inside = np.minimum(places, len(filled) - 1)
    found = (latents >= 0) & (places < len(filled))
    found[found] = filled[inside[found]] == asked[found]
    values = np.zeros(latents.shape)
    values[found] = codes.data[inside[found]]
    return np.asarray(values.max(axis=1))


def perturbed_pairs(
    before: Codes,
    after: Codes,
    added: ArrayLike,
    removed: ArrayLike,
    coalitions: Sequence[ArrayLike],
    k: int,
) -> PerturbedPairs:
    """Return the pairs, checked.

    Raises AssayError, naming the row: for shapes that differ, codes outside [0, 1], a pair that neither adds
    nor removes, one that adds what it removes, an attribute or a latent out of range, and k below 1.
    """
    check_sizes([k])
    first, second = _unit_codes(before, "before"), _unit_codes(after, "after")
    if first.shape != second.shape:
        raise AssayError(f"before has shape {first.shape} and after {second.shape}; pairs share theirs")
    latents = _first_latents(coalitions, k, first.shape[1])
    n_pairs, n_attributes = first.shape[0], len(coalitions)
    comes = _attribute_ids(added, "added", n_pairs, n_attributes)
    goes = _attribute_ids(removed, "removed", n_pairs, n_attributes)
    _check_sides(comes, goes)
    return PerturbedPairs(first, second, comes, goes, latents)


def latent_maxima(codes: Codes) -> FloatArray:
    """Return the largest code of each latent over N training images, (D,); 0 where it never fires."""
    values = positive(codes)
    maxima = np.zeros(values.shape[1])
    np.maximum.at(maxima, values.indices, values.data)
    return maxima


def scaled_codes(codes: Codes, maxima: FloatArray) -> Sparse:
    """Return codes (P, D) over the latents' training maxima (D,), sparse, in [0, 1], for the graded scores.

    A code above the maximum is 1, one below 0 is 0, and so is a latent's that never fired in training.
    Raises AssayError for another number of latents.
    """
    values = positive(codes)
    if maxima.shape != (values.shape[1],):
        raise AssayError(
            f"maxima have shape {maxima.shape}, but the codes have {values.shape[1]} latents; "
            "give the maxima of the same SAE's training codes"
        )
    scale = maxima[values.indices]
    values.data = np.divide(values.data, scale, out=np.zeros_like(values.data), where=scale > 0).clip(0, 1)
    values.eliminate_zeros()
    return values


def _unit_codes(codes: Codes, name: str) -> Sparse:
    found = positive(codes, name)
    given = sp.csr_array(codes) if sp.issparse(codes) else np.asarray(codes)
    for matrix, wrong in ((found, found > 1), (given, given < 0)):
        if wrong.sum():
            row, column = (int(place[0]) for place in wrong.nonzero())
            raise AssayError(
                f"{name}[{row}, {column}] is {matrix[row, column]}; give booleans, or codes in [0, 1] "
                "(`scaled_codes` makes them from codes and the training maxima)"
            )
    return found


def _first_latents(coalitions: Sequence[ArrayLike], k: int, n_latents: int) -> IntArray:
    own = [np.asarray(coalition, dtype=np.int64)[:k] for coalition in coalitions]
    latents = np.full((len(own) + 1, max([1, *map(len, own)])), NONE, dtype=np.int64)
    for row, coalition in zip(latents[:-1], own, strict=True):
        check_latents(coalition, n_latents)
        row[: len(coalition)] = coalition
    return latents


def _attribute_ids(ids: ArrayLike, name: str, n_pairs: int, n_attributes: int) -> IntArray:
    array = np.asarray(ids)
    if array.shape != (n_pairs,) or array.dtype.kind not in "iu":
        raise AssayError(
            f"{name} has shape {array.shape} and type {array.dtype}; give an attribute's number for each of "
            f"{n_pairs} pairs, -1 where there is none"
        )
    wrong = (array < NONE) | (array >= n_attributes)
    if wrong.any():
        row = int(wrong.argmax())
        raise AssayError(
            f"{name}[{row}] is {array[row]}; attributes are 0 to {n_attributes - 1}, or -1 for none"
        )
    return array.astype(np.int64)


def _check_sides(added: IntArray, removed: IntArray) -> None:
    same = added == removed
    if same.any():
        row = int(same.argmax())
        what = (
            "neither adds nor removes an attribute"
            if added[row] == NONE
            else (f"both adds and removes attribute {added[row]}")
        )
        raise AssayError(f"pair {row} {what}; leave it out")
