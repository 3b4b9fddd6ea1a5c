"""The kept sets along an explainer's path: its top players in, or out, a step at a time.

Source: Ky, Ghamizi, Cordy, "Measuring Cross-Modal Synergy" (arXiv 2605.22168).
"""

from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from pipeline.errors import AssayError
from pipeline.synergy.states import BoolArray, IntArray

CURVES = ("del_both", "del_patches", "del_tokens", "ins_both", "ins_patches", "ins_tokens")
"""The axis of curves of `path_sets`: what is taken from everything, then what is put into nothing."""
INSERTION_CURVES = ("patches_into_tokens", "tokens_into_patches")
"""The further curves of unimodal insertion: one modality built up, the other whole."""


def counts(n_players: int, steps: int) -> IntArray:
    """Return how many of n players are at the top at each point (steps,): i n / (steps - 1), half to even.

    Exact: no float is rounded. Raises AssayError for fewer than 2 steps and for no player.
    """
    if steps < 2:
        raise AssayError(f"steps is {steps}; a path has at least 2 points, its ends")
    if n_players < 1:
        raise AssayError("a modality has no player; give at least one patch and one query token")
    return np.asarray([round(Fraction(i * n_players, steps - 1)) for i in range(steps)], dtype=np.int64)


def checked_order(name: str, order: ArrayLike) -> IntArray:
    """Return the order as int64 (m,). Raises AssayError unless it has each of 0, ..., m - 1 once."""
    array = np.asarray(order)
    if array.ndim != 1 or not np.array_equal(np.sort(array), np.arange(len(array))):
        raise AssayError(
            f"{name} (shape {array.shape}) is no order of players; it must have each number once"
        )
    return array.astype(np.int64)


def top_sets(order: IntArray, steps: int) -> BoolArray:
    """Return which players are at the top of an order (m,) at each point, (steps, m)."""
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return np.asarray(rank[None, :] < counts(len(order), steps)[:, None])


def path_sets(
    patch_order: ArrayLike, token_order: ArrayLike, steps: int, insertion: bool
) -> tuple[BoolArray, BoolArray]:
    """Return the kept patches (C, steps, m) and tokens (C, steps, n) of each curve of one pair of orders.

    The C curves are `CURVES`, and with insertion `INSERTION_CURVES` after them. Raises AssayError as
    `counts` and `checked_order`.
    """
    patches = top_sets(checked_order("patch_order", patch_order), steps)
    tokens = top_sets(checked_order("token_order", token_order), steps)
    (every_patch, no_patch), (every_token, no_token) = (
        (np.ones_like(sets), np.zeros_like(sets)) for sets in (patches, tokens)
    )
    curves = [
        (~patches, ~tokens),
        (~patches, every_token),
        (every_patch, ~tokens),
        (patches, tokens),
        (patches, no_token),
        (no_patch, tokens),
    ]
    if insertion:
        curves += [(patches, every_token), (every_patch, tokens)]
    return np.stack([sets for sets, _ in curves]), np.stack([sets for _, sets in curves])
