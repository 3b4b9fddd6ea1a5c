"""shapiq's exact SII over macro-players is the direct formula, and has the known values."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synergy_games import Counting, cases, literal_sii, set_function, smooth_game, table_game

from pipeline.errors import AssayError
from pipeline.synergy import fsyn, rank_groups, sii


def macro_value(game, patch_groups, token_groups):
    """The game of macro-players: which players a set of macro-players keeps, looked up one by one."""
    n_patches = max(patch_groups) + 1

    def value(players):
        patches = np.array([[group in players for group in patch_groups]])
        tokens = np.array([[group + n_patches in players for group in token_groups]])
        return float(game(patches, tokens)[0])

    return value


@settings(max_examples=15)
@given(cases(max_players=6), st.integers(1, 3), st.integers(1, 3))
def test_it_equals_the_direct_formula(case, n_patch_groups, n_token_groups):
    patch_order, token_order, seed = case
    game = table_game(len(patch_order), len(token_order), seed)
    found = sii(game, patch_order, token_order, n_patch_groups, n_token_groups)
    patch_groups = rank_groups(patch_order, n_patch_groups).tolist()
    token_groups = rank_groups(token_order, n_token_groups).tolist()
    value = macro_value(game, patch_groups, token_groups)
    p, t = max(patch_groups) + 1, max(token_groups) + 1
    expected = [[literal_sii(value, p + t, i, p + j) for j in range(t)] for i in range(p)]
    np.testing.assert_allclose(found.pairs, expected, atol=1e-12)
    assert found.total == pytest.approx(np.sum(expected), abs=1e-12)
    assert found.top == pytest.approx(expected[0][0], abs=1e-12)


def test_five_and_five_groups_ask_for_each_of_1024_states_once():
    game = Counting(table_game(8, 6, 1))
    rng = np.random.default_rng(0)
    orders = rng.permutation(8), rng.permutation(6)
    found = sii(game, *orders)
    assert (found.n_states, game.n_asked, len(game.calls), len(game.asked)) == (1024, 1024, 1, 1024)
    value = macro_value(game.game, *(rank_groups(order, 5).tolist() for order in orders))
    expected = [literal_sii(value, 10, i, 5 + j) for i, j in ((0, 0), (4, 1), (2, 4))]
    np.testing.assert_allclose(found.pairs[[0, 4, 2], [0, 1, 4]], expected, atol=1e-12)


@given(cases(max_players=6))
@settings(max_examples=15)
def test_one_macro_player_a_modality_interacts_by_the_dividend(case):
    patch_order, token_order, seed = case
    game = table_game(len(patch_order), len(token_order), seed)
    found = sii(game, patch_order, token_order, 1, 1)
    dividend = fsyn(game, patch_order, token_order).dividend
    assert found.pairs.shape == (1, 1)
    assert found.top == pytest.approx(dividend, abs=1e-14)


def test_a_game_that_is_additive_over_modalities_has_no_cross_modal_interaction():
    g, h = set_function(10, 0), set_function(7, 1)
    found = sii(lambda patches, tokens: g(patches) + h(tokens), range(10), range(7))
    assert np.abs(found.pairs).max() < 1e-12


def test_a_single_pair_that_needs_both_is_all_of_the_sum():
    """f = 1 where patch 9 and token 3 are kept: SII of their groups is 1, of every other pair 0."""

    def game(patches, tokens):
        return (patches[:, 9] & tokens[:, 3]).astype(float)

    found = sii(game, [9, *range(9)], [3, 0, 1, 2, 4])
    expected = np.zeros((5, 5))
    expected[0, 0] = 1
    np.testing.assert_allclose(found.pairs, expected, atol=1e-12)
    moved = sii(game, [*range(9), 9], [0, 1, 3, 2, 4])
    assert (moved.top, moved.total) == pytest.approx((0, 1), abs=1e-12)
    assert moved.pairs[4, 2] == pytest.approx(1)


def test_a_bilinear_game_shares_its_interaction_by_weight():
    a, b = np.arange(1, 11) / 55, np.arange(1, 6) / 15
    found = sii(lambda patches, tokens: (patches @ a) * (tokens @ b), range(10), range(5))
    expected = np.outer(a.reshape(5, 2).sum(axis=1), b)
    np.testing.assert_allclose(found.pairs, expected, atol=1e-12)
    assert found.total == pytest.approx(1)


@given(st.permutations(range(13)), st.integers(1, 15))
def test_groups_are_contiguous_ranks_of_equal_size_the_larger_first(order, n_groups):
    groups = rank_groups(order, n_groups)
    by_rank = groups[list(order)]
    assert (np.diff(by_rank) >= 0).all()
    sizes = np.bincount(groups)
    assert len(sizes) == min(n_groups, 13)
    assert sizes.max() - sizes.min() <= 1 and (np.diff(sizes) <= 0).all()


def test_a_question_of_three_tokens_has_three_groups():
    found = sii(smooth_game(16, 3, 0), range(16), range(3))
    assert (found.pairs.shape, found.n_states) == ((5, 3), 2**8)


def test_impossible_groups_are_refused():
    game = smooth_game(40, 40, 0)
    with pytest.raises(AssayError, match="n_groups is 0"):
        sii(game, range(40), range(40), 0, 5)
    with pytest.raises(AssayError, match="17 macro-players have 131072 coalitions"):
        sii(game, range(40), range(40), 12, 5)
    with pytest.raises(AssayError, match="at least one patch and one query token"):
        sii(game, range(40), [])
    with pytest.raises(AssayError, match="is no order"):
        sii(game, [0, 0], [0])
