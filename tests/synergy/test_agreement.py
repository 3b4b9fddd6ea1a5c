"""Agreement is scipy's correlation at each level, and D explains nothing within a sample."""

import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pipeline.errors import AssayError
from pipeline.synergy import agreements, rank_agreement
from pipeline.synergy.agreement import kendall, spearman


def rows(f, dividend, sii, **settings_):
    return {
        (row.level, row.left, row.right, row.measure): row
        for row in agreements(f, dividend, sii, **settings_)
    }


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=9))
def test_counts_say_how_often_a_value_is_there(triples):
    left, right, counts = (np.array(values, dtype=float) for values in zip(*triples, strict=True))
    repeated = [np.repeat(values, counts.astype(int)) for values in (left, right)]
    constant = any(len(np.unique(values)) < 2 for values in repeated)
    for mine, theirs in ((spearman, stats.spearmanr), (kendall, stats.kendalltau)):
        (found,) = mine(left, right, counts[None])
        if constant:
            assert math.isnan(found)
        else:
            assert found == pytest.approx(theirs(*repeated).statistic, abs=1e-12)


@pytest.mark.parametrize(
    ("measure", "theirs"), [("spearman", stats.spearmanr), ("kendall", stats.kendalltau)]
)
def test_levels_are_means_of_scipys_correlations(measure, theirs):
    rng = np.random.default_rng(0)
    dividend = rng.normal(size=12)
    sii = dividend[:, None] + rng.normal(size=(12, 4))
    f = sii + rng.normal(size=(12, 4))
    found = rows(f, dividend, sii, n_bootstrap=20)
    pooled = theirs(f.ravel(), sii.ravel()).statistic
    across = np.mean([theirs(f[:, e], sii[:, e]).statistic for e in range(4)])
    within = np.mean([theirs(f[s], sii[s]).statistic for s in range(12)])
    alone = np.mean([theirs(dividend, sii[:, e]).statistic for e in range(4)])
    assert found["pooled", "f", "sii", measure].value == pytest.approx(pooled)
    assert found["across", "f", "sii", measure].value == pytest.approx(across)
    assert found["within", "f", "sii", measure].value == pytest.approx(within)
    assert found["across", "dividend", "sii", measure].value == pytest.approx(alone)
    assert [found[level, "f", "sii", measure].n for level in ("pooled", "across", "within")] == [1, 4, 12]


def test_the_dividend_may_explain_all_across_samples_and_never_anything_within():
    rng = np.random.default_rng(1)
    dividend = np.arange(30.0)
    f, sii = (dividend[:, None] + 0.01 * rng.random((30, 5)) for _ in range(2))
    found = rows(f, dividend, sii, n_bootstrap=100)
    assert found["across", "f", "sii", "spearman"].value == 1
    assert found["across", "dividend", "sii", "spearman"].value == 1
    within = found["within", "dividend", "sii", "spearman"]
    assert (within.n, within.n_undefined) == (0, 30)
    assert math.isnan(within.value) and math.isnan(within.low) and math.isnan(within.high)
    chance = found["within", "f", "sii", "spearman"]
    assert chance.low < 0 < chance.high and abs(chance.value) < 0.3


def test_intervals_hold_what_resampling_whole_samples_gives():
    rng = np.random.default_rng(2)
    dividend = rng.normal(size=40)
    sii = dividend[:, None] + rng.normal(size=(40, 3))
    f = sii + rng.normal(size=(40, 3))
    drawn = []
    for _ in range(400):
        own = rng.integers(40, size=40)
        drawn.append(np.mean([stats.spearmanr(f[own, e], sii[own, e]).statistic for e in range(3)]))
    row = rows(f, dividend, sii, n_bootstrap=2000)["across", "f", "sii", "spearman"]
    assert (row.low, row.high) == pytest.approx(np.quantile(drawn, [0.025, 0.975]), abs=0.04)
    narrow = rows(f, dividend, sii, n_bootstrap=2000, confidence=0.5)["across", "f", "sii", "spearman"]
    assert row.low < narrow.low < row.value < narrow.high < row.high


def test_a_cell_without_sii_is_left_out():
    rng = np.random.default_rng(3)
    dividend, sii, f = rng.normal(size=8), rng.normal(size=(8, 3)), rng.normal(size=(8, 3))
    less = sii.copy()
    less[5:] = np.nan
    less[0, 1] = np.nan
    found = rows(f, dividend, less, n_bootstrap=10)
    kept = np.isfinite(less)
    pooled = stats.kendalltau(f[kept], sii[kept]).statistic
    across = np.mean([stats.kendalltau(f[kept[:, e], e], sii[kept[:, e], e]).statistic for e in range(3)])
    assert found["pooled", "f", "sii", "kendall"].value == pytest.approx(pooled)
    assert found["across", "f", "sii", "kendall"].value == pytest.approx(across)
    within = found["within", "f", "sii", "kendall"]
    assert (within.n, within.n_undefined) == (5, 3)
    each = [stats.kendalltau(f[s, kept[s]], sii[s, kept[s]]).statistic for s in range(5)]
    assert within.value == pytest.approx(np.mean(each))


def test_equal_seeds_give_equal_intervals():
    rng = np.random.default_rng(4)
    tables = rng.normal(size=(9, 2)), rng.normal(size=9), rng.normal(size=(9, 2))
    same = [rows(*tables, seed=5)["pooled", "f", "sii", "kendall"] for _ in range(2)]
    other = rows(*tables, seed=6)["pooled", "f", "sii", "kendall"]
    assert same[0] == same[1]
    assert (other.value, other.low == same[0].low) == (same[0].value, False)


def test_tables_that_do_not_fit_are_refused():
    f, dividend = np.ones((3, 2)), np.ones(3)
    with pytest.raises(AssayError, match=r"f has shape \(3, 2\), sii \(2, 2\)"):
        agreements(f, dividend, np.ones((2, 2)))
    with pytest.raises(AssayError, match="no sample has both F and SII"):
        agreements(f, dividend, np.full((3, 2), np.nan))
    with pytest.raises(AssayError, match=r"dividend\[1\] is nan"):
        agreements(f, [1, np.nan, 1], f)


def test_the_p_of_a_ranking_counts_permutations():
    left = np.arange(6.0)
    right = np.array([1.0, 0.0, 2.0, 3.0, 5.0, 4.0])
    taus = [stats.kendalltau(left, other).statistic for other in permutations(range(6))]
    found = rank_agreement(left, right)
    assert found.tau == pytest.approx(11 / 15)
    assert found.p == pytest.approx(np.mean(np.abs(taus) >= abs(found.tau) - 1e-12))
    assert (found.n, found.exact) == (6, True)


def test_reversed_and_equal_rankings_are_the_ends():
    means = np.random.default_rng(0).random(9)
    assert rank_agreement(means, means).tau == 1
    assert rank_agreement(means, -means).tau == -1
    assert rank_agreement(means, means).p == pytest.approx(2 / math.factorial(9))


def test_a_ranking_with_ties_says_that_its_p_is_not_exact_and_a_constant_one_has_none():
    tied = rank_agreement([1, 1, 2, 3], [1, 2, 3, 4])
    assert not tied.exact and 0 < tied.p < 1
    assert tied.tau == pytest.approx(5 / math.sqrt(5 * 6))
    for left, right in (([1, 1, 1], [1, 2, 3]), ([1], [2]), ([], [])):
        found = rank_agreement(left, right)
        assert math.isnan(found.tau) and math.isnan(found.p) and found.n == len(left)


def test_rankings_of_other_explainers_or_without_a_score_are_refused():
    for left, right in (([1, 2], [1, 2, 3]), ([1, np.nan], [1, 2]), ([[1, 2]], [[1, 2]])):
        with pytest.raises(AssayError, match="one finite score an explainer"):
            rank_agreement(left, right)


def test_what_f_adds_to_the_dividend_is_judged_under_the_same_resamples():
    """Across samples F's correlation less D's: its interval is that of paired draws, not of two apart."""
    rng = np.random.default_rng(3)
    dividend = rng.normal(size=25)
    sii = dividend[:, None] + 0.5 * rng.normal(size=(25, 3))
    found = rows(dividend[:, None] + 1e-9 * sii, dividend, sii, n_bootstrap=200)
    more = found["across", "f_over_dividend", "sii", "spearman"]
    assert (more.value, more.low, more.high) == (0, 0, 0)
    assert found["across", "f", "sii", "spearman"].high > found["across", "f", "sii", "spearman"].value
    better = rows(sii, dividend, sii, n_bootstrap=200)
    gap = better["across", "f", "sii", "kendall"].value - better["across", "dividend", "sii", "kendall"].value
    assert better["across", "f_over_dividend", "sii", "kendall"].value == pytest.approx(gap)
    assert better["across", "f_over_dividend", "sii", "kendall"].low > 0
