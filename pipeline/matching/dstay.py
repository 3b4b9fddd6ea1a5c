"""dstay: how much the coalitions of attributes that a pair leaves alone change all the same.

Source: Klotz et al., arXiv 2606.24716.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pipeline.errors import AssayError
from pipeline.matching.codes import BoolArray, Codes, FloatArray, IntArray, attribute_matrix
from pipeline.matching.perturbed import NONE, perturbed_pairs


@dataclass(frozen=True, eq=False)
class Dstay:
    """dstay of P pairs over A attributes.

    values (P,): a pair's mean |change| over its untouched present attributes, NaN where it has none. mean:
    that of the values that there are, else NaN. n_undefined: pairs without a value. attribute_values, n_pairs
    (A,): an attribute's mean |change| over the pairs that leave it alone, and how many these are. n_empty:
    cells (pair, attribute) whose coalition is empty, and which count as 0.
    """

    mean: float
    values: FloatArray
    n_undefined: int
    attribute_values: FloatArray
    n_pairs: IntArray
    n_empty: int


def dstay(
    before: Codes,
    after: Codes,
    present: ArrayLike,
    added: ArrayLike,
    removed: ArrayLike,
    coalitions: Sequence[ArrayLike],
    k: int = 3,
) -> Dstay:
    """Return dstay: 0 where nothing but the edited attribute's coalition moves, 1 where all others do.

    present (P, A): attributes of the image before; the others as for `tapascore`. A change is that of the
    whole coalition's first k latents, those shared with the edited attribute too.
    Raises AssayError as `tapascore`, and where present has another shape. Source: arXiv 2606.24716.
    """
    pairs = perturbed_pairs(before, after, added, removed, coalitions, k)
    untouched = attribute_matrix(present, len(pairs.added)).copy()
    if untouched.shape[1] != pairs.n_attributes:
        raise AssayError(
            f"present has {untouched.shape[1]} attributes, but there are {pairs.n_attributes} coalitions; "
            "give the columns that were matched"
        )
    for ids in (pairs.added, pairs.removed):
        rows = np.flatnonzero(ids >= 0)
        untouched[rows, ids[rows]] = False
    rows, attributes = np.nonzero(untouched)
    changes = np.zeros(untouched.shape)
    changes[rows, attributes] = np.abs(pairs.changes(rows, pairs.latents[attributes]))
    empty = (pairs.latents[:-1] == NONE).all(axis=1)
    values, n_attributes = _means(changes, untouched, axis=1)
    attribute_values, n_pairs = _means(changes, untouched, axis=0)
    defined = n_attributes > 0
    return Dstay(
        mean=float(values[defined].mean()) if defined.any() else float("nan"),
        values=values,
        n_undefined=int((~defined).sum()),
        attribute_values=attribute_values,
        n_pairs=n_pairs,
        n_empty=int(np.count_nonzero(untouched[:, empty])),
    )


def _means(changes: FloatArray, where: BoolArray, axis: int) -> tuple[FloatArray, IntArray]:
    n = np.count_nonzero(where, axis=axis)
    return np.divide(changes.sum(axis=axis), n, out=np.full(len(n), np.nan), where=n > 0), n
