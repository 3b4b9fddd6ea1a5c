"""Paired tests and Holm's adjustment: literal definitions as oracles."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pipeline.statistics.paired import holm, paired_t, signed_rank


def test_signed_rank_is_the_share_of_sign_flips_at_least_as_extreme() -> None:
    differences = np.array([0.5, -0.2, 0.0, 0.3, 0.3, -0.1, 0.0, 0.8])
    ranks = stats.rankdata(np.abs(differences)) * (differences != 0)
    middle = ranks.sum() / 2
    seen = abs(ranks[differences > 0].sum() - middle)
    flips = [abs(ranks[np.array(signs)].sum() - middle) for signs in product([True, False], repeat=8)]
    assert signed_rank(differences) == pytest.approx(np.mean(np.array(flips) >= seen - 1e-9))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("differences", "p_t", "p_rank"),
    [
        ([], np.nan, np.nan),
        ([0.2], np.nan, 1),
        ([0.0], np.nan, 1),
        ([0.0] * 60, 1, 1),
        ([-0.5, -0.5], 0, 0.5),
    ],
)
def test_degenerate_tests_are_defined_without_a_warning(
    differences: list[float], p_t: float, p_rank: float
) -> None:
    values = np.array(differences)
    np.testing.assert_equal([paired_t(values)[1], signed_rank(values)], [p_t, p_rank])


def literal_holm(p: list[float]) -> list[float]:
    known = sorted((value, i) for i, value in enumerate(p) if not np.isnan(value))
    out = [np.nan] * len(p)
    for position, (_, i) in enumerate(known):
        out[i] = min(1, max((len(known) - j) * known[j][0] for j in range(position + 1)))
    return out


def test_holm_gives_the_known_answer() -> None:
    found = holm(np.array([0.01, 0.04, np.nan, 0.03, 0.005]))
    np.testing.assert_allclose(found, [0.03, 0.06, np.nan, 0.06, 0.02])


@given(st.lists(st.one_of(st.floats(0, 1), st.just(np.nan)), max_size=12))
def test_holm_is_its_literal_definition(p: list[float]) -> None:
    np.testing.assert_allclose(holm(np.array(p, dtype=float)), literal_holm(p))
