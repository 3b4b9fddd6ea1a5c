"""Ratings counted by pair of image and description: one sort, whatever the ids are."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipeline.crowd.arrays import IntArray
from pipeline.errors import AssayError

PAIR = ["image_id", "description"]
SHIFTS = 16
Codes = NDArray[np.integer[Any]]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True)
class Votes:
    """The votes on P pairs, by first appearance, and the n ratings behind them, sorted by pair.

    pairs: image_id and description (P rows); yes, n_ratings (P,); text (P,): the number of the pair's
    description in 0..n_texts; by_appearance (P,): the place of each pair in the sorted order; worker
    (n,), codes in 0..n_workers, and vote (n,), yes or no: in the sorted order.
    """

    pairs: pd.DataFrame
    yes: IntArray
    n_ratings: IntArray
    text: IntArray
    n_texts: int
    by_appearance: IntArray
    worker: Codes
    n_workers: int
    vote: BoolArray

    @cached_property
    def rated(self) -> IntArray:
        """Return the pair of each rating (n,), as worker and vote are sorted."""
        pair = np.empty_like(self.by_appearance)
        pair[self.by_appearance] = np.arange(len(pair))
        return np.repeat(pair, self.n_ratings[pair])

    def of_pairs(self, kept: BoolArray) -> "Votes":
        """Return the votes on the pairs where kept (P,) is true; descriptions keep their numbers."""
        ratings = kept[self.rated]
        return replace(
            self,
            pairs=self.pairs[kept].reset_index(drop=True),
            yes=self.yes[kept],
            n_ratings=self.n_ratings[kept],
            text=self.text[kept],
            by_appearance=np.argsort(np.argsort(self.by_appearance[kept])),
            worker=self.worker[ratings],
            vote=self.vote[ratings],
        )

    @cached_property
    def descriptions(self) -> pd.Series:
        """Return the description behind each text number (n_texts,)."""
        first = np.zeros(self.n_texts, dtype=np.int64)
        first[self.text[::-1]] = np.arange(len(self.text))[::-1]
        return self.pairs["description"].iloc[first].reset_index(drop=True)


def count_votes(ratings: pd.DataFrame) -> Votes:
    """Return the votes by pair; ratings as in `aggregate`, any id type.

    Raises AssayError for a missing column or value, a rating that is neither yes nor no, and a worker
    twice on a pair.
    """
    check_columns("ratings", ratings, [*PAIR, "worker", "rating"])
    image, text, worker = (_coded(ratings[column]) for column in (*PAIR, "worker"))
    order, vote, new = _by_pair(image, text, _yes(ratings["rating"]))
    starts = np.flatnonzero(new)
    sizes = np.diff(starts, append=len(order))
    most = int(sizes.max(initial=0))
    by_worker = _narrow(worker)[order]
    _check_once(ratings, new, by_worker, most)
    rows, by_appearance = _sorted(order[starts])
    small = np.int8 if most < 128 else np.int64
    yes = np.add.reduceat(vote.astype(small), starts) if len(starts) else sizes
    texts, n_texts = compress(text.codes[rows].astype(np.int64) - text.low, text.bound)
    return Votes(
        pairs=ratings[PAIR].take(rows).reset_index(drop=True),
        yes=yes[by_appearance].astype(np.int64),
        n_ratings=sizes.astype(small)[by_appearance].astype(np.int64),
        text=texts,
        n_texts=n_texts,
        by_appearance=by_appearance,
        worker=by_worker,
        n_workers=worker.bound,
        vote=vote,
    )


def compress(codes: IntArray, bound: int) -> tuple[IntArray, int]:
    """Return codes in 0..bound renumbered without gaps, in the same order, and how many there are."""
    if bound > 4 * len(codes) + 65536:
        distinct, inverse = np.unique(codes, return_inverse=True)
        return inverse.astype(np.int64), len(distinct)
    present = np.zeros(bound, dtype=bool)
    present[codes] = True
    numbers = np.cumsum(present) - 1
    return numbers[codes], int(present.sum())


def check_columns(name: str, table: pd.DataFrame, columns: list[str]) -> None:
    """Raise AssayError where a column lacks, or a value in it."""
    if missing := [column for column in columns if column not in table]:
        raise AssayError(
            f"{name} lacks the column {missing[0]!r}; it has {', '.join(map(str, table.columns))}"
        )
    for column in columns:
        if table[column].isna().any():
            row = int(np.flatnonzero(table[column].isna())[0])
            raise AssayError(f"{column} in row {row} of {name} is missing")


def _yes(rating: pd.Series) -> BoolArray:
    if rating.dtype == np.bool_:
        return rating.to_numpy()
    if isinstance(rating.dtype, np.dtype) and rating.dtype.kind in "iu":
        legal = pd.Series((rating.to_numpy() == 0) | (rating.to_numpy() == 1))
    else:
        legal = rating.isin([0, 1])
    if not legal.all():
        row = int(np.flatnonzero(~legal)[0])
        raise AssayError(f"rating in row {row} of ratings is {rating.iloc[row]}; it must be yes or no")
    return np.asarray(rating.astype(np.int64).to_numpy() == 1)


class _Coded(NamedTuple):
    """Numbers for ids: equal numbers, equal ids; codes - low is in 0..bound."""

    codes: Codes
    low: int
    bound: int


def _coded(ids: pd.Series) -> _Coded:
    if isinstance(ids.dtype, pd.CategoricalDtype):
        return _Coded(ids.cat.codes.to_numpy(), 0, len(ids.cat.categories))
    if isinstance(ids.dtype, np.dtype) and ids.dtype.kind in "iu" and len(ids):
        values = ids.to_numpy()
        low, high = int(values.min()), int(values.max())
        if high - low < 4 * len(ids) + 65536 and high < 2**62:
            return _Coded(values, low, high - low + 1)
    codes, distinct = pd.factorize(ids)
    return _Coded(codes, 0, len(distinct))


def _narrow(ids: _Coded) -> Codes:
    """Return the codes from 0 in the smallest type that holds them: what is looked up stays in cache."""
    kind = np.min_scalar_type(max(ids.bound - 1, 0))
    return np.subtract(ids.codes, ids.low, dtype=np.int64).astype(kind) if ids.low else ids.codes.astype(kind)


def _by_pair(image: _Coded, text: _Coded, vote: BoolArray) -> tuple[IntArray, BoolArray, BoolArray]:
    """Return the rows sorted by pair, then by row; their votes; and where a new pair starts: (n,) each.

    Pair, row and vote are one integer where they fit, so that nothing has to follow the sort. All is
    done in place: at ten million ratings, fresh memory costs more than arithmetic.
    """
    n = len(vote)
    key = np.multiply(image.codes, text.bound, dtype=np.int64)
    key += text.codes
    key -= image.low * text.bound + text.low
    bits = max(n - 1, 1).bit_length() + 1
    if image.bound * text.bound >= 2 ** (62 - bits):
        order = np.argsort(key, kind="stable")
        return order, vote[order], _starts(key[order])
    key <<= bits
    key |= np.arange(0, 2 * n, 2)
    key |= vote
    key.sort()
    sorted_vote = np.empty(n, dtype=bool)
    np.bitwise_and(key, 1, out=sorted_vote, casting="unsafe")
    order = key >> 1
    order &= (1 << (bits - 1)) - 1
    key >>= bits
    return order, sorted_vote, _starts(key)


def _starts(key: IntArray) -> BoolArray:
    new = np.ones(len(key), dtype=bool)
    np.not_equal(key[1:], key[:-1], out=new[1:])
    return new


def _check_once(ratings: pd.DataFrame, new: BoolArray, worker: Codes, most: int) -> None:
    """Raise AssayError where a worker is twice in a pair; new: where a pair starts, `most` long at most."""
    if _repeats(new, worker, most):
        bad = ratings[ratings.duplicated([*PAIR, "worker"])].head(1).to_dict("records")[0]
        raise AssayError(
            f"worker {bad['worker']!r} rated image {bad['image_id']!r} with {bad['description']!r} more than "
            "once; keep one of these ratings"
        )


def _repeats(new: BoolArray, worker: Codes, most: int) -> bool:
    if most > SHIFTS:
        pair = np.cumsum(new)
        order = np.lexsort((worker, pair))
        return bool(((np.diff(pair[order]) == 0) & (np.diff(worker[order]) == 0)).any())
    same = np.ones(len(new), dtype=bool)
    for shift in range(1, most):
        # Rows `shift` apart are of one pair where none of the rows between them starts a new one.
        same = same[:-1] & ~new[shift:]
        if (same & (worker[shift:] == worker[:-shift])).any():
            return True
    return False


def _sorted(first: IntArray) -> tuple[IntArray, IntArray]:
    """Return first (P,) in order, and where each was: distinct rows, below 2**31 each."""
    bits = max(len(first) - 1, 1).bit_length()
    packed = (first << bits) | np.arange(len(first))
    packed.sort()
    return packed >> bits, packed & ((1 << bits) - 1)
