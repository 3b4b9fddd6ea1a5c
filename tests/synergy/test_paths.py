"""Points of a path are exact counts of an order's top players."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synergy_games import half_even, reference_states, state

from pipeline.errors import AssayError
from pipeline.synergy.paths import counts, path_sets, top_sets


def test_counts_round_half_to_even():
    assert counts(5, 11).tolist() == [0, 0, 1, 2, 2, 2, 3, 4, 4, 4, 5]
    assert counts(16, 11).tolist() == [0, 2, 3, 5, 6, 8, 10, 11, 13, 14, 16]
    assert counts(6, 11).tolist() == [0, 1, 1, 2, 2, 3, 4, 4, 5, 5, 6]


def test_counts_are_exact_where_a_float_is_not():
    assert round(float(np.linspace(0, 1, 11)[7] * 15)) == 11
    assert counts(15, 11)[7] == 10


def test_counts_are_whole_number_arithmetic():
    n_inexact = 0
    for n_players, steps in product(range(1, 81), range(2, 30)):
        exact = [half_even(i * n_players, steps - 1) for i in range(steps)]
        assert counts(n_players, steps).tolist() == exact
        n_inexact += exact != [round(i / (steps - 1) * n_players) for i in range(steps)]
    assert n_inexact > 0


@given(st.permutations(range(7)), st.integers(2, 15))
def test_top_sets_hold_the_first_players_of_the_order(order, steps):
    for kept, count in zip(top_sets(np.array(order), steps), counts(7, steps), strict=True):
        assert set(np.flatnonzero(kept)) == set(order[:count])


@given(st.permutations(range(5)), st.permutations(range(4)), st.integers(2, 12))
def test_the_six_curves_are_the_published_states(patch_order, token_order, steps):
    patches, tokens = path_sets(patch_order, token_order, steps, insertion=False)
    rows = [[state(patches[c, k], tokens[c, k]) for c in range(6)] for k in range(steps)]
    assert rows == reference_states(patch_order, token_order, steps)


@pytest.mark.parametrize("order", [[0, 0, 1], [1, 2, 3], [[0, 1]], [0.5, 1], [0, -1]])
def test_what_is_no_order_is_refused(order):
    with pytest.raises(AssayError, match=r"patch_order .* is no order"):
        path_sets(order, [0], 11, insertion=False)


def test_a_path_has_two_ends_and_a_modality_a_player():
    with pytest.raises(AssayError, match="steps is 1; a path has at least 2"):
        counts(4, 1)
    with pytest.raises(AssayError, match="no player"):
        path_sets([0, 1], [], 11, insertion=False)
