"""Players are ranked highest first, and only the seed decides between equals."""

from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pipeline.errors import AssayError
from pipeline.synergy import orders, tie_breaks, tie_share

SCORES = arrays(np.float64, st.integers(1, 12), elements=st.sampled_from([-1.5, -0.0, 0.0, 1e-300, 2.0, 3.0]))


@given(SCORES, st.integers(1, 4), st.integers(0, 99))
def test_each_row_is_an_order_from_the_highest_score_down(scores, n, seed):
    found = orders(scores, n, seed)
    assert found.shape == (n, len(scores)) and found.dtype == np.int64
    for row in found:
        assert sorted(row) == list(range(len(scores)))
        assert (np.diff(scores[row]) <= 0).all()


@given(st.permutations(range(9)), st.integers(0, 99))
def test_without_ties_all_rows_are_the_one_order(ranks, seed):
    assert orders(ranks, 3, seed).tolist() == [np.argsort(ranks)[::-1].tolist()] * 3


def test_equals_come_in_every_order_alike_whatever_their_place():
    rows = orders([5.0, 1.0, 1.0, 7.0, 1.0], 6000, seed=0)
    assert (rows[:, :2] == [3, 0]).all()
    seen = Counter(map(tuple, rows[:, 2:].tolist()))
    assert set(seen) == set(permutations([1, 2, 4]))
    assert min(seen.values()) > 900 and max(seen.values()) < 1100


def test_a_row_depends_on_the_seed_and_the_names_but_not_on_how_many_were_asked():
    flat = np.zeros(30)
    assert np.array_equal(orders(flat, 5, 1)[:3], orders(flat, 3, 1))
    assert np.array_equal(orders(flat, 2, 1, "sample 7"), orders(flat, 2, 1, "sample 7"))
    different = [orders(flat, 1, 1), orders(flat, 1, 2), orders(flat, 1, 1, "a"), orders(flat, 1, 1, "b")]
    assert len({tuple(order[0]) for order in different}) == 4


def test_a_zero_has_no_sign():
    assert len(set(map(tuple, orders([0.0, -0.0], 50, 0)))) == 2
    assert tie_share([0.0, -0.0]) == 1


@pytest.mark.parametrize(
    ("scores", "share"),
    [([1, 2, 3], 0), ([1, 1, 3, 4], 0.5), ([2, 2, 2], 1), ([4], 0), ([0] * 94 + list(range(1, 7)), 0.94)],
)
def test_the_tie_share_counts_players_that_have_an_equal(scores, share):
    assert tie_share(scores) == share


def test_one_pair_of_orders_where_nothing_is_tied_and_n_where_one_modality_is():
    (only,) = tie_breaks([3, 1, 2], [1, 2], 5, 0)
    assert [order.tolist() for order in only] == [[0, 2, 1], [1, 0]]
    pairs = tie_breaks([3, 1, 2], [1, 1, 1], 5, 0)
    assert len(pairs) == 5
    assert {tuple(patches) for patches, _ in pairs} == {(0, 2, 1)}
    assert len({tuple(tokens) for _, tokens in pairs}) > 1


def test_the_two_modalities_do_not_share_their_permutations():
    pairs = tie_breaks(np.zeros(20), np.zeros(20), 3, 0)
    assert all(not np.array_equal(patches, tokens) for patches, tokens in pairs)


@pytest.mark.parametrize("scores", [[], [[1.0, 2.0]], [1.0, np.nan], [np.inf, 0.0]])
def test_scores_that_cannot_be_ranked_are_refused(scores):
    for call in (lambda: orders(scores, 1, 0), lambda: tie_share(scores)):
        with pytest.raises(AssayError, match=r"scores (have shape|\[)|scores\["):
            call()


def test_at_least_one_order_is_asked_for():
    for call in (lambda: orders([1.0, 1.0], 0, 0), lambda: tie_breaks([1.0, 2.0], [1.0], 0, 0)):
        with pytest.raises(AssayError, match="n is 0; ask for at least one"):
            call()
