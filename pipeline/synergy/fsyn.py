"""F_syn: how much of what an explainer ranks first acts only in both modalities together.

Source: Ky, Ghamizi, Cordy, "Measuring Cross-Modal Synergy" (arXiv 2605.22168).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pipeline.errors import AssayError
from pipeline.synergy.areas import area, check_rule
from pipeline.synergy.paths import CURVES, INSERTION_CURVES, path_sets
from pipeline.synergy.states import (
    N_CORNERS,
    FloatArray,
    Game,
    IntArray,
    States,
    ask,
    corner_numbers,
    corners,
    distinct,
)
from pipeline.synergy.unimodal import Unimodal, unimodal

DIVIDEND_FLOOR = 1e-6
"""Below it a dividend of float32 probabilities is rounding, and F / D is NaN."""

OrderPairs = Sequence[tuple[ArrayLike, ArrayLike]]


@dataclass(frozen=True)
class Corners:
    """The game where each modality is whole or empty: the four states that all explainers share."""

    full: float
    patches_only: float
    tokens_only: float
    empty: float


@dataclass(frozen=True)
class Synergy:
    """F_syn of one explainer on one game, with what it is made of; means over its orders.

    f: (auc_ins + auc_del) / 2. ins, del_: syn_ins and syn_del at the K points (K,).
    dividend: D = f(V,Q) - f(V,0) - f(0,Q) + f(0,0), the same for every explainer.
    ratio: f / D; NaN where |D| is below `DIVIDEND_FLOOR`.
    f_by_order: F of each order (n_orders,); equal orders are counted as often as they were given.
    n_states: distinct states that F needs; n_tie_states of them only the orders after the first need.
    n_insertion_states: further states of unimodal insertion.
    mu_image, mu_text: the curves of one modality with the other whole.
    """

    f: float
    auc_ins: float
    auc_del: float
    dividend: float
    ratio: float
    ins: FloatArray
    del_: FloatArray
    f_by_order: FloatArray
    n_states: int
    n_tie_states: int
    n_insertion_states: int
    corners: Corners
    mu_image: Unimodal
    mu_text: Unimodal


def fsyn(
    game: Game, patch_order: ArrayLike, token_order: ArrayLike, steps: int = 11, rule: str = "trapezoid"
) -> Synergy:
    """Return F_syn of one order of patches (m,) and one of tokens (n,), most important first.

    game(patches (S, m) bool kept, tokens (S, n) bool kept) gives (S,) values; it is called with the four
    corners, then with the other distinct states. steps: the K points of the path. rule: trapezoid, mean or
    left. Raises AssayError for an order that is none, fewer than 2 steps, another rule, and values that are
    not finite. Source: arXiv 2605.22168.
    """
    return explain_many(game, {"": [(patch_order, token_order)]}, steps, rule)[""]


def explain_many(
    game: Game,
    explainers: Mapping[str, OrderPairs],
    steps: int = 11,
    rule: str = "trapezoid",
    *,
    insertion: bool = False,
) -> dict[str, Synergy]:
    """Return F_syn of each explainer, given its pairs of orders (patches, tokens): one, or tie-breaks.

    The corners are asked in a first call of the game and shared; the other distinct states of each explainer
    in a call of their own, so that no number depends on which explainers are asked together, even where a
    value depends on the batch it is computed in. With insertion the unimodal insertion curves are asked too.
    Raises AssayError as `fsyn`, and where an explainer has no orders or other players than the first.
    """
    check_rule(rule)
    if not explainers:
        return {}
    asked = _states(explainers, steps, insertion)
    shared = ask(game, corners(*_players(next(iter(explainers.values()))[0])))
    return {
        name: _synergy(_values(game, states, shared), states.index, rule) for name, states in asked.items()
    }


def count_states(explainers: Mapping[str, OrderPairs], steps: int = 11, *, insertion: bool = False) -> int:
    """Return how many states `explain_many` asks for. Raises AssayError as it does."""
    if not explainers:
        return 0
    asked = _states(explainers, steps, insertion)
    return N_CORNERS + sum(len(states) - N_CORNERS for states in asked.values())


def _states(explainers: Mapping[str, OrderPairs], steps: int, insertion: bool) -> dict[str, States]:
    """Return each explainer's distinct states, corners among them; index is (orders, curves, steps)."""
    if empty := [name for name, pairs in explainers.items() if not pairs]:
        raise AssayError(f"explainer {empty[0]!r} has no orders; give at least one pair (patches, tokens)")
    named = [(name, pair) for name, pairs in explainers.items() for pair in pairs]
    first_name, players = named[0][0], _players(named[0][1])
    for name, pair in named:
        if (own := _players(pair)) != players:
            raise AssayError(
                f"explainer {name!r} orders {own[0]} patches and {own[1]} tokens, {first_name!r} {players[0]}"
                f" and {players[1]}; all must order the same players"
            )
    return {name: _states_of(pairs, steps, insertion) for name, pairs in explainers.items()}


def _states_of(pairs: OrderPairs, steps: int, insertion: bool) -> States:
    sets = [path_sets(*pair, steps, insertion) for pair in pairs]
    return distinct(np.stack([patches for patches, _ in sets]), np.stack([tokens for _, tokens in sets]))


def _values(game: Game, states: States, corner_values: FloatArray) -> FloatArray:
    """Return the values of all sets that were asked for; the game is called with those that are no corner."""
    number = corner_numbers(states)
    own = number < 0
    values = np.where(own, np.nan, corner_values[number])
    if own.any():
        values[own] = ask(game, States(states.patches[own], states.tokens[own], np.arange(own.sum())))
    return values[states.index]


def _players(pair: tuple[ArrayLike, ArrayLike]) -> tuple[int, int]:
    return np.size(pair[0]), np.size(pair[1])


def _synergy(values: FloatArray, index: IntArray, rule: str) -> Synergy:
    """Return the result of one explainer: values and numbers of its states, (orders, curves, K)."""
    deletion = _interaction(values[:, 0], values[:, 1], values[:, 2])
    insertion = _interaction(values[:, 3], values[:, 4], values[:, 5])
    f_by_order = (area(insertion, rule) + area(deletion, rule)) / 2
    ins, del_ = insertion.mean(axis=0), deletion.mean(axis=0)
    auc_ins, auc_del = float(area(ins, rule)), float(area(del_, rule))
    f, dividend = (auc_ins + auc_del) / 2, float(deletion[0, -1])
    n_states = len(np.unique(index[:, : len(CURVES)]))
    mu_image, mu_text = _unimodals(values.mean(axis=0), rule)
    return Synergy(
        f=f,
        auc_ins=auc_ins,
        auc_del=auc_del,
        dividend=dividend,
        ratio=f / dividend if abs(dividend) >= DIVIDEND_FLOOR else math.nan,
        ins=ins,
        del_=del_,
        f_by_order=f_by_order,
        n_states=n_states,
        n_tie_states=n_states - len(np.unique(index[0, : len(CURVES)])),
        n_insertion_states=len(np.unique(index)) - n_states,
        corners=_corners(values[0]),
        mu_image=mu_image,
        mu_text=mu_text,
    )


def _interaction(both: FloatArray, patches: FloatArray, tokens: FloatArray) -> FloatArray:
    """Return f(both) - f(patches) - f(tokens) + f(start) along curves (orders, K) that start at one state.

    Summed in pairs, so that the first point is exactly 0 and the last is the same bits either way.
    """
    return np.asarray((both + both[:, :1]) - (patches + tokens))


def _corners(curves: FloatArray) -> Corners:
    full, empty = curves[CURVES.index("del_both"), [0, -1]].tolist()
    return Corners(
        full=full,
        patches_only=float(curves[CURVES.index("del_tokens"), -1]),
        tokens_only=float(curves[CURVES.index("del_patches"), -1]),
        empty=empty,
    )


def _unimodals(curves: FloatArray, rule: str) -> tuple[Unimodal, Unimodal]:
    further = curves[len(CURVES) :]
    into_tokens, into_patches = further if len(further) == len(INSERTION_CURVES) else (None, None)
    return (
        unimodal(curves[CURVES.index("del_patches")], into_tokens, rule),
        unimodal(curves[CURVES.index("del_tokens")], into_patches, rule),
    )
