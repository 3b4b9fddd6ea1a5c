"""Which inputs a rater gets next, and in which order they are shown."""

import hashlib
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


def choose(
    counts: NDArray[np.integer],
    reserved: NDArray[np.integer],
    description_of: NDArray[np.integer],
    mine: BoolArray,
    stopped: BoolArray,
    n_raters: int,
    size: int,
) -> IntArray:
    """Return the positions, (at most size,), of the inputs of one description that come next.

    counts, reserved, description_of, mine, stopped: (N,), in the study's order. An input's level is
    counts + reserved: the ratings that it has, and those that others hold. It can be had while its
    level is below n_raters, unless it is mine (this rater rated or holds it) or stopped. Of the
    descriptions the one with most inputs at the lowest level is taken (the first of several), and of
    its inputs the lowest levels first, then the study's order. Empty where there is none to be had.
    O(N).
    """
    level = counts + reserved
    free = ~(mine | stopped) & (level < n_raters)
    if not free.any():
        return np.empty(0, dtype=np.int64)
    lowest = free & (level == level[free].min())
    description = np.bincount(description_of[lowest]).argmax()
    found = np.flatnonzero(free & (description_of == description))
    return found[np.argsort(level[found], kind="stable")[:size]]


def shown_order(assignment: str, inputs: Iterable[str]) -> list[str]:
    """Return the input ids of an assignment in the order that a hash of both ids gives."""
    return sorted(inputs, key=lambda each: _digest(assignment, each))


def check_slot(seed: int, rater: str, description: str, n_slots: int) -> int:
    """Return the slot in 0..n_slots-1 of the attention check, by a hash: fixed, yet not to be guessed."""
    return int(_digest(str(seed), rater, description), 16) % n_slots


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
