"""Games whose values are known in closed form, and slow, literal forms of what pipeline.synergy computes."""

from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations, pairwise
from math import factorial

import numpy as np
from hypothesis import strategies as st


@dataclass
class Counting:
    """A game that remembers how it was asked."""

    game: object
    calls: list = field(default_factory=list)

    def __call__(self, patches, tokens):
        self.calls.append((patches.copy(), tokens.copy()))
        return self.game(patches, tokens)

    @property
    def n_asked(self):
        return sum(len(patches) for patches, _ in self.calls)

    @property
    def asked(self):
        return {state(*row) for call in self.calls for row in zip(*call, strict=True)}


def state(patches, tokens):
    return frozenset(np.flatnonzero(patches).tolist()), frozenset(np.flatnonzero(tokens).tolist())


def table_game(m, n, seed):
    """Any set function at all: a random value for each of the 2^(m + n) kept sets."""
    values = np.random.default_rng(seed).random(2 ** (m + n))
    bits = 2 ** np.arange(m + n)
    return lambda patches, tokens: values[np.concatenate([patches, tokens], axis=1) @ bits]


def set_function(n, seed):
    """Any function of one modality's kept set."""
    values = np.random.default_rng(seed).random(2**n)
    return lambda kept: values[kept @ (2 ** np.arange(n))]


def smooth_game(m, n, seed):
    """A game of many players: no two states share a value."""
    rng = np.random.default_rng(seed)
    a, b = rng.random(m), rng.random(n)
    return lambda patches, tokens: np.sin(1 + patches @ a / m) * np.exp(-(tokens @ b) / n)


def reference_states(patch_order, token_order, steps):
    """The six kept sets of each point, as frozensets: a loop over points, counts from whole numbers."""
    every_patch, every_token = frozenset(range(len(patch_order))), frozenset(range(len(token_order)))
    nothing = frozenset()
    rows = []
    for i in range(steps):
        a = frozenset(list(patch_order)[: half_even(i * len(patch_order), steps - 1)])
        b = frozenset(list(token_order)[: half_even(i * len(token_order), steps - 1)])
        rows.append([
            (every_patch - a, every_token - b), (every_patch - a, every_token),
            (every_patch, every_token - b), (a, b), (a, nothing), (nothing, b),
        ])  # fmt: skip
    return rows


def half_even(numerator, denominator):
    whole, rest = divmod(numerator, denominator)
    up = 2 * rest > denominator or (2 * rest == denominator and whole % 2 == 1)
    return whole + up


def literal_curves(game, patch_order, token_order, steps):
    """syn_del and syn_ins by the formula: 6 K + 2 calls of the game with one state each."""
    m, n = len(patch_order), len(token_order)

    def value(kept):
        patches, tokens = np.zeros((1, m), dtype=bool), np.zeros((1, n), dtype=bool)
        patches[0, list(kept[0])] = True
        tokens[0, list(kept[1])] = True
        return float(game(patches, tokens)[0])

    full = value((frozenset(range(m)), frozenset(range(n))))
    empty = value((frozenset(), frozenset()))
    rows = [[value(kept) for kept in row] for row in reference_states(patch_order, token_order, steps)]
    deletion = [row[0] - row[1] - row[2] + full for row in rows]
    insertion = [row[3] - row[4] - row[5] + empty for row in rows]
    return np.array(deletion), np.array(insertion)


def literal_area(curve, rule):
    """The area in exact fractions of the floats."""
    points = [Fraction(value) for value in curve]
    if rule == "mean":
        return float(sum(points) / len(points))
    if rule == "left":
        return float(sum(points[:-1]) / (len(points) - 1))
    return float(sum((a + b) / 2 for a, b in pairwise(points)) / (len(points) - 1))


def literal_sii(value, n_players, i, j):
    """The Shapley interaction of i and j: the weighted sum over all coalitions of the others."""
    others = [player for player in range(n_players) if player not in (i, j)]
    total = 0.0
    for size in range(len(others) + 1):
        weight = factorial(size) * factorial(n_players - size - 2) / factorial(n_players - 1)
        for rest in map(set, combinations(others, size)):
            total += weight * (value(rest | {i, j}) - value(rest | {i}) - value(rest | {j}) + value(rest))
    return total


@st.composite
def cases(draw, max_players=5):
    """Sizes, orders and a seed of a small game."""
    m, n = draw(st.integers(1, max_players)), draw(st.integers(1, max_players))
    patch_order, token_order = draw(st.permutations(range(m))), draw(st.permutations(range(n)))
    return patch_order, token_order, draw(st.integers(0, 2**31))
