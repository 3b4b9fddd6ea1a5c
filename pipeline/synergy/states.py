"""Kept sets of a game: which are distinct, which are corners, and their values, each asked once."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import AssayError

BoolArray: TypeAlias = NDArray[np.bool_]
FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
Game: TypeAlias = Callable[[BoolArray, BoolArray], FloatArray]
"""A game: kept patches (S, m) and kept tokens (S, n) to values (S,)."""
N_CORNERS = 4


@dataclass(frozen=True)
class States:
    """S distinct kept sets, by first appearance, and where each set that was asked for is among them.

    patches (S, m), tokens (S, n) bool; index: any shape, values below S.
    """

    patches: BoolArray
    tokens: BoolArray
    index: IntArray

    def __len__(self) -> int:
        return len(self.patches)


def distinct(patches: BoolArray, tokens: BoolArray) -> States:
    """Return the distinct ones of the kept sets patches (..., m) and tokens (..., n); index is (...)."""
    shape = patches.shape[:-1]
    rows = patches.reshape(-1, patches.shape[-1]), tokens.reshape(-1, tokens.shape[-1])
    packed = np.packbits(np.concatenate(rows, axis=1), axis=1)
    _, first, index = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    by_appearance = np.argsort(first)
    place = np.empty_like(by_appearance)
    place[by_appearance] = np.arange(len(first))
    kept = first[by_appearance]
    return States(rows[0][kept], rows[1][kept], place[index.reshape(shape)])


def corners(n_patches: int, n_tokens: int) -> States:
    """Return the states in which each modality is whole or empty: everything, patches, tokens, nothing."""
    patches, tokens = np.hsplit(np.array([[1, 1], [1, 0], [0, 1], [0, 0]], dtype=bool), 2)
    return States(
        np.repeat(patches, n_patches, axis=1), np.repeat(tokens, n_tokens, axis=1), np.arange(N_CORNERS)
    )


def corner_numbers(states: States) -> IntArray:
    """Return (S,): which of `corners` each state is, -1 where it is none."""
    whole = [kept.all(axis=1) for kept in (states.patches, states.tokens)]
    empty = [~kept.any(axis=1) for kept in (states.patches, states.tokens)]
    is_corner = (whole[0] | empty[0]) & (whole[1] | empty[1])
    return np.where(is_corner, 2 * empty[0] + empty[1], -1)


def ask(game: Game, states: States) -> FloatArray:
    """Return the game's values of all sets that were asked for, in the shape of states.index.

    The game is called once, with the distinct states. Raises AssayError for values that are not (S,) or
    not finite.
    """
    values = np.asarray(game(states.patches, states.tokens), dtype=np.float64)
    if values.shape != (len(states),):
        raise AssayError(
            f"the game gave values of shape {values.shape} for {len(states)} states; one a state"
        )
    if not (finite := np.isfinite(values)).all():
        row = int(np.flatnonzero(~finite)[0])
        n_patches, n_tokens = int(states.patches[row].sum()), int(states.tokens[row].sum())
        raise AssayError(
            f"the game's value is {values[row]} with {n_patches} patches and {n_tokens} tokens kept;"
            " every value must be finite: check the model's precision (float16 overflows)"
        )
    return values[states.index]
