"""The share of bootstrap samples in which a method is first, and the units that all methods scored."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.seeds import generator
from pipeline.statistics import ranking
from pipeline.statistics.ranking import common_units, first_shares


def test_first_shares_are_those_of_a_literal_loop() -> None:
    rng = np.random.default_rng(5)
    values = rng.standard_normal((9, 3))
    values[rng.random((9, 3)) < 0.3] = np.nan
    draws = np.random.default_rng(7)
    wins = np.zeros(3)
    for _ in range(200):
        sample = values[draws.integers(9, size=9)]
        means = [np.nanmean(column) if np.any(~np.isnan(column)) else -np.inf for column in sample.T]
        wins[int(np.argmax(means))] += 1
    np.testing.assert_allclose(first_shares(values, 200, np.random.default_rng(7)), wins / 200)


def test_first_shares_do_not_depend_on_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(1).standard_normal((7, 4))
    whole = first_shares(values, 101, generator(3))
    monkeypatch.setattr(ranking, "BLOCK", 1)
    np.testing.assert_array_equal(first_shares(values, 101, generator(3)), whole)


@given(st.integers(1, 8), st.integers(1, 4), st.integers(0, 1000))
def test_first_shares_add_up_to_one(n: int, n_methods: int, seed: int) -> None:
    values = np.random.default_rng(seed).integers(-2, 3, size=(n, n_methods)) / 4
    assert np.sum(first_shares(values, 50, np.random.default_rng(seed))) == pytest.approx(1)


def test_common_units_are_those_that_every_method_with_a_score_scored() -> None:
    null = np.nan
    values = np.array([[0.1, 0.2, null], [null, 0.3, null], [0.4, 0.5, null]])
    assert list(common_units(values)) == [True, False, True]
    assert list(common_units(np.full((2, 2), null))) == [False, False]
