"""The t interval of a mean: scipy, a textbook value and a literal sandwich as oracles."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pipeline.statistics.intervals import clustered_error, fewest_values, mean_interval


def test_the_mean_has_scipys_t_interval() -> None:
    values = np.array([0.1, 0.4, 0.2, 0.7, 0.3])
    found = mean_interval(values, 0.9)
    expected = stats.ttest_1samp(values, 0).confidence_interval(0.9)
    assert (found.n, found.flag) == (5, "")
    assert found.mean == pytest.approx(0.34)
    assert found.sd == pytest.approx(np.sqrt(np.sum((values - 0.34) ** 2) / 4))
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


def test_two_units_give_the_textbook_interval() -> None:
    found = mean_interval(np.array([0.0, 2.0]), 0.95)
    assert (found.low, found.high) == pytest.approx((1 - 12.706204736, 1 + 12.706204736))


@pytest.mark.parametrize(
    ("values", "mean", "low", "flag"),
    [
        ([], np.nan, np.nan, "no_unit"),
        ([0.3], 0.3, np.nan, "one_unit"),
        ([0.3, 0.3, 0.3], 0.3, 0.3, "constant"),
    ],
)
def test_a_degenerate_mean_is_defined_and_flagged(
    values: list[float], mean: float, low: float, flag: str
) -> None:
    found = mean_interval(np.array(values))
    assert found.flag == flag
    np.testing.assert_allclose([found.mean, found.low, found.high], [mean, low, low])


def literal_cr1(values: np.ndarray, texts: np.ndarray) -> float:
    """The sandwich of a regression on a constant, with CR1's factor, written out with matrices."""
    n, k, found = len(values), 1, np.unique(texts)
    design = np.ones((n, 1))
    residuals = values - values.mean()
    bread = np.linalg.inv(design.T @ design)
    meat = np.zeros((1, 1))
    for text in found:
        own = design[texts == text].T @ residuals[texts == text]
        meat += np.outer(own, own)
    factor = len(found) / (len(found) - 1) * (n - 1) / (n - k)
    return float(np.sqrt(factor * bread @ meat @ bread)[0, 0])


@given(st.integers(0, 1000), st.integers(2, 30), st.integers(2, 8))
def test_a_clustered_error_is_the_cr1_sandwich(seed: int, n: int, n_texts: int) -> None:
    rng = np.random.default_rng(seed)
    values, texts = rng.standard_normal(n), np.r_[0, 1, rng.integers(n_texts, size=n - 2)]
    codes = np.unique(texts, return_inverse=True)[1]
    assert clustered_error(values - values.mean(), codes) == pytest.approx(literal_cr1(values, texts))


def test_units_that_share_a_text_count_once() -> None:
    values = np.array([0.1, 0.4, 0.2, 0.7, 0.3])
    once = mean_interval(values)
    copied = mean_interval(np.repeat(values, 4), texts=np.repeat(np.arange(5), 4))
    assert (copied.n, copied.n_texts) == (20, 5)
    assert (copied.low, copied.high) == pytest.approx((once.low, once.high))


def test_where_every_text_is_distinct_the_interval_is_the_ordinary_one() -> None:
    values = np.array([0.1, 0.4, 0.2, 0.7, 0.3])
    assert mean_interval(values, texts=np.array([7, 3, 9, 1, 0])) == mean_interval(values)


def test_one_text_has_no_interval_and_says_so() -> None:
    found = mean_interval(np.array([0.1, 0.5, 0.3]), texts=np.array([4, 4, 4]))
    assert (found.n, found.n_texts, found.flag) == (3, 1, "one_text")
    assert found.mean == pytest.approx(0.3)
    assert found.sd == pytest.approx(0.2)
    assert np.isnan([found.low, found.high]).all()


def test_texts_with_equal_means_have_no_interval_rather_than_an_empty_one() -> None:
    found = mean_interval(np.array([0.0, 1.0, 0.0, 1.0]), texts=np.array([0, 0, 1, 1]))
    assert found.flag == "equal_texts"
    assert np.isnan([found.low, found.high]).all()


@pytest.mark.parametrize(("confidence", "expected"), [(0.5, 2), (0.9, 5), (0.95, 6), (0.99, 8)])
def test_the_range_of_few_values_is_no_interval_of_high_confidence(confidence: float, expected: int) -> None:
    assert fewest_values(confidence) == expected
    assert 2 * 0.5**expected <= 1 - confidence < 2 * 0.5 ** (expected - 1) or confidence == 0.5
