"""Each distinct state is asked once, whoever needs it, and the counts are exact."""

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
def test_one_order_asks_for_its_distinct_states_in_one_call(size, n_states):
    game = Counting(smooth_game(*size, 0))
    found = fsyn(game, range(size[0]), range(size[1]))
    assert (len(game.calls), game.n_asked, found.n_states) == (1, n_states, n_states)
    assert game.asked == reference([(range(size[0]), range(size[1]))])
    assert (found.n_tie_states, found.n_insertion_states) == (0, 0)


@given(st.integers(1, 60), st.integers(1, 60), st.integers(2, 15))
def test_no_order_needs_more_than_six_states_a_point_between_the_ends_and_the_four_corners(m, n, steps):
    assert count_states({"x": [(range(m), range(n))]}, steps) <= 6 * (steps - 2) + 4


@pytest.mark.parametrize("size", SIZES)
def test_nine_explainers_ask_for_the_union_of_their_states(size):
    explainers, game = nine(*size), Counting(smooth_game(*size, 0))
    found = explain_many(game, explainers)
    union = reference([pair for pairs in explainers.values() for pair in pairs])
    assert len(game.calls) == 1
    assert game.n_asked == len(game.asked) == len(union) == count_states(explainers)
    assert game.asked == union
    assert len(union) <= 490
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


@pytest.mark.parametrize("size", SIZES)
def test_sharing_states_changes_no_number(size):
    explainers, game = nine(*size, n_orders=2), smooth_game(*size, 0)
    together = explain_many(game, explainers, insertion=True)
    for name, pairs in explainers.items():
        alone = explain_many(game, {name: pairs}, insertion=True)[name]
        for field in (
            "f",
            "auc_ins",
            "auc_del",
            "dividend",
            "n_states",
            "n_tie_states",
            "n_insertion_states",
        ):
            assert getattr(together[name], field) == getattr(alone, field)


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
