"""Exact Shapley interactions between groups of patches and groups of tokens: what F_syn is a proxy of.

Source: Grabisch, Roubens, "An axiomatic approach to the concept of interaction among players in
cooperative games" (1999), computed by shapiq; macro-players as in arXiv 2605.22168.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pipeline.errors import AssayError
from pipeline.synergy.paths import checked_order
from pipeline.synergy.states import BoolArray, FloatArray, Game, IntArray, ask, distinct

MAX_MACRO_PLAYERS = 16


@dataclass(frozen=True)
class Sii:
    """Exact SII of the pairs of a patch group and a token group, most important groups first.

    pairs: (P, T). total: their sum. top: pairs[0, 0]. n_states: distinct states, 2^(P + T).
    """

    pairs: FloatArray
    total: float
    top: float
    n_states: int


def rank_groups(order: ArrayLike, n_groups: int) -> IntArray:
    """Return each player's group (m,) under an order (m,): contiguous ranks, group 0 the most important.

    Sizes differ by 1 at most, the larger groups first. Fewer players than groups: one a group. Raises
    AssayError for an order that is none or empty and for fewer than 1 group.
    """
    ranked = checked_order("order", order)
    if not len(ranked):
        raise AssayError("a modality has no player; give at least one patch and one query token")
    if n_groups < 1:
        raise AssayError(f"n_groups is {n_groups}; a modality needs at least 1 macro-player")
    group = np.empty_like(ranked)
    for number, players in enumerate(np.array_split(ranked, min(n_groups, len(ranked)))):
        group[players] = number
    return group


def sii(
    game: Game, patch_order: ArrayLike, token_order: ArrayLike, patch_groups: int = 5, token_groups: int = 5
) -> Sii:
    """Return the exact SII of all cross-modal pairs of macro-players of one pair of orders.

    The game is called once, with every coalition. Fewer players than groups give fewer rows or columns.
    Raises AssayError as `rank_groups`, for more than 16 macro-players, and for values that are not finite.
    """
    from shapiq import ExactComputer

    patches, tokens = rank_groups(patch_order, patch_groups), rank_groups(token_order, token_groups)
    n_patches, n_tokens = int(patches.max()) + 1, int(tokens.max()) + 1
    n_players = n_patches + n_tokens
    if n_players > MAX_MACRO_PLAYERS:
        raise AssayError(
            f"{n_players} macro-players have {2**n_players} coalitions; patch_groups + token_groups may be"
            f" {MAX_MACRO_PLAYERS} at most"
        )

    def values(coalitions: BoolArray) -> FloatArray:
        kept = np.asarray(coalitions, dtype=bool)
        return ask(game, distinct(kept[:, patches], kept[:, n_patches + tokens]))

    found = ExactComputer(values, n_players)("SII", 2)
    pairs = np.asarray([[found[i, n_patches + j] for j in range(n_tokens)] for i in range(n_patches)])
    return Sii(pairs, float(pairs.sum()), float(pairs[0, 0]), 2**n_players)
