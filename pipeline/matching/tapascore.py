"""TAPAScore: does an attribute's coalition switch on where only it is added, and off where it goes?

Source: Klotz et al., arXiv 2606.24716. `mode="reference"` reproduces the numbers of the authors' code.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from pipeline.errors import AssayError
from pipeline.matching.codes import BoolArray, Codes, FloatArray, IntArray
from pipeline.matching.perturbed import NONE, PerturbedPairs, perturbed_pairs

MODES = ("corrected", "reference")


@dataclass(frozen=True, eq=False)
class TapaScore:
    """TAPAScore of P pairs, with each pair's part.

    score: add - rem, or the one that is defined (- rem where pairs only remove). add, rem: mean change of the
    added and of the removed attribute's coalition, NaN where no pair defines it. macro: as score, from the
    means over attributes of their own mean. n_empty: pairs with an empty coalition on a side that they have.
    delta_add, delta_rem (P,): changes in [-1, 1], NaN where a pair has no such side or is dropped.
    empty_add, empty_rem (P,): whether that side's coalition is empty. dropped (P,): left out of every mean
    (`mode="reference"` only). n_shared (P,): latents in both coalitions, which left both.
    """

    score: float
    add: float
    rem: float
    macro: float
    n_empty: int
    delta_add: FloatArray
    delta_rem: FloatArray
    empty_add: BoolArray
    empty_rem: BoolArray
    dropped: BoolArray
    n_shared: IntArray
    added: IntArray
    removed: IntArray
    n_attributes: int

    def per_attribute(self, names: Sequence[str] | None = None) -> pd.DataFrame:
        """Return a row for each of A attributes: how often it is added and removed, and its mean changes.

        Columns: attribute, name (with names), n_add, mean_add, n_empty_add, n_rem, mean_rem, n_empty_rem,
        score. Counts are of the pairs that enter the mean; a mean of no pair is NaN, a score of none too.
        """
        n_add, mean_add, empty_add = self._side(self.added, self.delta_add, self.empty_add)
        n_rem, mean_rem, empty_rem = self._side(self.removed, self.delta_rem, self.empty_rem)
        columns = {
            "attribute": np.arange(self.n_attributes),
            "n_add": n_add,
            "mean_add": mean_add,
            "n_empty_add": empty_add,
            "n_rem": n_rem,
            "mean_rem": mean_rem,
            "n_empty_rem": empty_rem,
            "score": [_difference(*both) for both in zip(mean_add, mean_rem, strict=True)],
        }
        table = pd.DataFrame(columns)
        if names is not None:
            table.insert(1, "name", list(names))
        return table

    def _side(
        self, ids: IntArray, delta: FloatArray, empty: BoolArray
    ) -> tuple[IntArray, FloatArray, IntArray]:
        used = ~np.isnan(delta)
        n, means = _attribute_means(ids[used], delta[used], self.n_attributes)
        return n, means, np.bincount(ids[used & empty], minlength=self.n_attributes)


def tapascore(
    before: Codes,
    after: Codes,
    added: ArrayLike,
    removed: ArrayLike,
    coalitions: Sequence[ArrayLike],
    k: int = 3,
    *,
    mode: str = "corrected",
) -> TapaScore:
    """Return the TAPAScore of P pairs: mean change of what is added minus mean change of what is removed.

    before, after (P, D): which latents fire, or codes in [0, 1] (see `scaled_codes`) for the graded score.
    added, removed (P,): attributes, -1 where there is none. coalitions: A index arrays in order of choice.
    The change of a coalition is max after - max before over its first k latents, without those that are also
    among the first k of the pair's other attribute. An empty one changes by 0, and is counted.
    mode="reference" drops a pair whose added attribute has an empty coalition, as the authors' code does.
    Raises AssayError as `perturbed_pairs`, and for an unknown mode. Source: arXiv 2606.24716.
    """
    if mode not in MODES:
        raise AssayError(f"mode is {mode!r}; choose from {', '.join(MODES)}")
    pairs = perturbed_pairs(before, after, added, removed, coalitions, k)
    delta, empty, n_shared = _changes(pairs)
    dropped = empty[0] if mode == "reference" else np.zeros(len(pairs.added), dtype=np.bool_)
    delta[:, dropped] = np.nan
    add, rem = (_mean(side) for side in delta)
    by_attribute = [
        _mean(_attribute_means(ids[~np.isnan(side)], side[~np.isnan(side)], pairs.n_attributes)[1])
        for ids, side in zip((pairs.added, pairs.removed), delta, strict=True)
    ]
    return TapaScore(
        score=_difference(add, rem),
        add=add,
        rem=rem,
        macro=_difference(*by_attribute),
        n_empty=int(empty.any(axis=0).sum()),
        delta_add=delta[0],
        delta_rem=delta[1],
        empty_add=empty[0],
        empty_rem=empty[1],
        dropped=dropped,
        n_shared=n_shared,
        added=pairs.added,
        removed=pairs.removed,
        n_attributes=pairs.n_attributes,
    )


def _changes(pairs: PerturbedPairs) -> tuple[FloatArray, BoolArray, IntArray]:
    """Return the changes of both sides (2, P), which have no latent (2, P), and the shared latents (P,)."""
    ids = np.stack([pairs.added, pairs.removed])
    comes, goes = pairs.latents[ids]
    shared = (comes[:, :, None] == goes[:, None, :]) & (comes >= 0)[:, :, None]
    comes[shared.any(axis=2)] = NONE
    goes[shared.any(axis=1)] = NONE
    rows = np.arange(ids.shape[1])
    delta = np.stack([pairs.changes(rows, latents) for latents in (comes, goes)])
    delta[ids == NONE] = np.nan
    empty = np.stack([(latents == NONE).all(axis=1) for latents in (comes, goes)])
    return delta, empty & (ids != NONE), shared.sum(axis=(1, 2))


def _attribute_means(ids: IntArray, delta: FloatArray, n_attributes: int) -> tuple[IntArray, FloatArray]:
    n = np.bincount(ids, minlength=n_attributes)
    sums = np.bincount(ids, weights=delta, minlength=n_attributes)
    return n, np.divide(sums, n, out=np.full(n_attributes, np.nan), where=n > 0)


def _mean(values: FloatArray) -> float:
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if len(defined) else float("nan")


def _difference(add: float, rem: float) -> float:
    if np.isnan(add):
        return float(-rem)
    return float(add if np.isnan(rem) else add - rem)
