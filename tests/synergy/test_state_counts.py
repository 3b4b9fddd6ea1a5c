"""The corners are asked once, an explainer's other states once each, and the counts are exact."""

from dataclasses import astuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synergy_games import Counting, cases, reference_states, smooth_game, table_game

from pipeline.synergy import count_states, explain_many, fsyn
from pipeline.synergy.states import ask, distinct

SIZES = [(16, 6), (576, 12)]


def nine(m, n, n_orders=1):
    rng = np.random.default_rng(m)
    pairs = [[(rng.permutation(m), rng.permutation(n)) for _ in range(n_orders)] for _ in range(9)]
    return {f"explainer {i}": own for i, own in enumerate(pairs)}


def reference(pairs, steps=11):
    return {kept for pair in pairs for row in reference_states(*pair, steps) for kept in row}


@pytest.mark.parametrize(("size", "n_states"), [((16, 6), 50), ((576, 12), 58), ((20, 15), 58), ((4, 2), 20)])
def test_one_order_asks_for_each_of_its_states_once_the_corners_first(size, n_states):
    game = Counting(smooth_game(*size, 0))
    found = fsyn(game, range(size[0]), range(size[1]))
    assert [len(patches) for patches, _ in game.calls] == [4, n_states - 4]
    assert (game.n_asked, found.n_states) == (n_states, n_states)
    assert game.asked == reference([(range(size[0]), range(size[1]))])
    assert (found.n_tie_states, found.n_insertion_states) == (0, 0)


@given(st.integers(1, 60), st.integers(1, 60), st.integers(2, 15))
def test_no_order_needs_more_than_six_states_a_point_between_the_ends_and_the_four_corners(m, n, steps):
    assert count_states({"x": [(range(m), range(n))]}, steps) <= 6 * (steps - 2) + 4


@pytest.mark.parametrize(("size", "n_asked"), [((16, 6), 4 + 9 * 46), ((576, 12), 490)])
def test_nine_explainers_ask_for_their_own_states_and_share_the_corners(size, n_asked):
    explainers, game = nine(*size), Counting(smooth_game(*size, 0))
    found = explain_many(game, explainers)
    own = [reference(pairs) for pairs in explainers.values()]
    assert [len(patches) for patches, _ in game.calls] == [4, *(len(states) - 4 for states in own)]
    assert game.n_asked == count_states(explainers) == n_asked <= 490
    assert game.asked == set.union(*own)
    assert {one.n_states for one in found.values()} == {50 if size == (16, 6) else 58}


def test_the_bound_of_490_is_reached_where_no_two_explainers_share_a_set():
    assert (
        count_states({f"{i}": [(np.roll(range(576), 64 * i), np.roll(range(120), 13 * i))] for i in range(9)})
        == 490
    )


def test_the_corners_are_the_only_states_that_all_share():
    explainers = nine(576, 12)
    own = [reference(pairs) for pairs in explainers.values()]
    assert len(set.intersection(*own)) == 4


def batch_game(game):
    """A game as a GPU plays it: the last bits of a value depend on the others of its call."""

    def played(patches, tokens):
        values = game(patches, tokens)
        return values + 1e-9 * np.sin(1e6 * values.sum() + np.arange(len(values)))

    return played


@pytest.mark.parametrize("size", SIZES)
def test_no_number_depends_on_which_explainers_are_asked_together(size):
    explainers, game = nine(*size, n_orders=2), batch_game(smooth_game(*size, 0))
    together = explain_many(game, explainers, insertion=True)
    for name, pairs in explainers.items():
        alone = explain_many(game, {name: pairs}, insertion=True)[name]
        np.testing.assert_equal(astuple(alone), astuple(together[name]))
    patches, tokens = (np.eye(n, dtype=bool)[[0, 1, 1, 0]] for n in size)
    assert game(patches, tokens)[0] != game(patches[:2], tokens[:2])[0]  # else it proves nothing


def test_states_of_further_orders_and_of_insertion_are_counted_apart():
    explainers, game = nine(576, 12, n_orders=3), Counting(smooth_game(576, 12, 0))
    pairs = explainers["explainer 0"]
    found = explain_many(game, {"x": pairs}, insertion=True)["x"]
    assert found.n_states == len(reference(pairs)) > 58
    assert found.n_tie_states == found.n_states - 58
    assert game.n_asked == found.n_states + found.n_insertion_states
    assert explain_many(game, {"x": pairs[:1]}, insertion=True)["x"].n_insertion_states == 2 * 9
    assert count_states({"x": pairs[:1]}, insertion=True) == 58 + 2 * 9


@given(cases(max_players=4))
def test_distinct_states_are_in_order_of_appearance_and_lead_back_to_what_was_asked(case):
    patch_order, token_order, seed = case
    m, n = len(patch_order), len(token_order)
    rng = np.random.default_rng(seed)
    patches, tokens = rng.random((3, 7, m)) < 0.5, rng.random((3, 7, n)) < 0.5
    states = distinct(patches, tokens)
    assert np.array_equal(states.patches[states.index], patches)
    assert np.array_equal(states.tokens[states.index], tokens)
    seen = dict.fromkeys(states.index.ravel().tolist())
    assert list(seen) == list(range(len(states)))
    game = table_game(m, n, seed)
    expected = game(patches.reshape(-1, m), tokens.reshape(-1, n)).reshape(3, 7)
    assert np.array_equal(ask(game, states), expected)
