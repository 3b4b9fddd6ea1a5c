from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pipeline.crowd import importance_correlation, proposal
from pipeline.crowd.arrays import standardised
from pipeline.crowd.correlation import correlation, correlations, drawn_correlation, importance_weights
from pipeline.errors import AssayError

LENGTH = st.shared(st.integers(2, 30), key="length")
NUMBERS = st.floats(-1e3, 1e3, width=16)


def literal_estimate(activation, q, draws, concept):
    n_images = len(activation)
    mean = sum(activation) / n_images
    sd = (sum((a - mean) ** 2 for a in activation) / n_images) ** 0.5
    w = [1 / n_images / q[i] for i in draws]
    mu = sum(x * c for x, c in zip(w, concept, strict=True)) / len(draws)
    var = sum(x * (c - mu) ** 2 for x, c in zip(w, concept, strict=True)) / len(draws)
    terms = [x * (activation[i] - mean) / sd * (c - mu) for x, i, c in zip(w, draws, concept, strict=True)]
    return sum(terms) / len(draws) / var**0.5


def test_estimate_equals_its_literal_form_repeats_included():
    rng = np.random.default_rng(0)
    a, c = rng.normal(size=40), rng.random(40)
    q = proposal(a, c)
    draws = rng.choice(40, size=100, p=q)
    expected = literal_estimate(list(a), list(q), list(draws), list(c[draws]))
    assert importance_correlation(a, q, draws, c[draws]) == pytest.approx(expected, rel=1e-12)


def test_known_answer_of_two_draws():
    # abar = (-1, 1); q = (.25, .75): w = (2, 2/3); mu = 1/3; var = 7/27; moment = 10/9 / 2 = 5/9.
    estimate = importance_correlation([0, 2], [0.25, 0.75], [0, 1], [0, 1])
    mu = (2 / 3) / 2
    var = (2 * mu**2 + 2 / 3 * (1 - mu) ** 2) / 2
    moment = (2 * mu + 2 / 3 * (1 - mu)) / 2
    assert (mu, var, moment) == (pytest.approx(1 / 3), pytest.approx(7 / 27), pytest.approx(5 / 9))
    assert estimate == pytest.approx(moment / var**0.5, rel=1e-14)
    assert estimate > 1  # a ratio estimate is not confined to [-1, 1]


@given(LENGTH.flatmap(lambda n: arrays(np.float64, (2, n), elements=NUMBERS)))
def test_a_uniform_census_is_pearson(data):
    a, c = data
    n = len(a)
    estimate = importance_correlation(a, np.full(n, 1 / n), np.arange(n), c)
    if a.min() == a.max() or c.min() == c.max():
        assert np.isnan(estimate) and np.isnan(correlation(a, c))
        return
    assert estimate == pytest.approx(np.corrcoef(a, c)[0, 1], abs=1e-9)
    assert correlation(a, c) == pytest.approx(np.corrcoef(a, c)[0, 1], abs=1e-9)


def test_the_order_of_draws_does_not_matter():
    rng = np.random.default_rng(2)
    a, c = rng.normal(size=30), rng.random(30)
    q = proposal(a, c)
    draws = rng.choice(30, size=50, p=q)
    order = rng.permutation(50)
    whole = importance_correlation(a, q, draws, c[draws])
    assert importance_correlation(a, q, draws[order], c[draws][order]) == pytest.approx(whole, rel=1e-12)


def test_its_moments_are_unbiased_over_every_possible_sample():
    a, c = standardised(np.array([0.0, 1, 5, 2])), np.array([0.0, 0.2, 0.9, 0.1])
    q = proposal(a, c)
    w = importance_weights(q, 4)
    moments = np.zeros(2)
    for sample in product(range(4), repeat=3):
        rows = list(sample)
        chance = q[rows].prod()
        moments += chance * np.array([np.mean(w[rows] * c[rows]), np.mean(w[rows] * a[rows] * c[rows])])
    np.testing.assert_allclose(moments, [c.mean(), np.mean(a * c)], rtol=1e-12)


def test_it_is_consistent():
    rng = np.random.default_rng(3)
    a = rng.random(500) ** 4
    c = np.clip(0.7 * a + 0.3 * rng.random(500), 0, 1)
    q = proposal(a, c)
    draws = rng.choice(500, size=200_000, p=q)
    assert importance_correlation(a, q, draws, c[draws]) == pytest.approx(correlation(a, c), abs=0.01)


@pytest.mark.parametrize("value", [0.0, 0.1, 0.3, 1.0])
def test_a_constant_concept_is_nan_not_noise(value):
    rng = np.random.default_rng(4)
    a = rng.random(20)
    q = proposal(a, rng.random(20))
    draws = rng.choice(20, size=11, p=q)
    assert np.isnan(importance_correlation(a, q, draws, np.full(11, value)))
    assert np.isnan(importance_correlation(a, q, [3], [value]))
    assert np.isnan(correlation(a, np.full(20, value)))


def test_a_constant_activation_is_nan():
    assert np.isnan(importance_correlation([0.1] * 7, [1 / 7] * 7, [0, 1, 2], [0, 1, 1]))
    assert np.isnan(correlation([0.1] * 7, range(7)))


def test_the_inner_form_gives_the_same_bits():
    rng = np.random.default_rng(5)
    a, c = rng.normal(size=60), rng.random(60)
    q = proposal(a, c)
    draws = rng.choice(60, size=33, p=q)
    inner = drawn_correlation(standardised(a)[draws], importance_weights(q[draws], 60), c[draws])
    assert importance_correlation(a, q, draws, c[draws]) == inner


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"activation": [1, 2, np.nan]}, r"activation\[2\] is nan"),
        ({"q": [0.5, 0.5]}, r"q has shape \(2,\); expected \(3,\)"),
        ({"q": [0.5, 0.25, 0.1]}, "q sums to 0.85; it must sum to 1 over all 3 images"),
        ({"q": [1.5, -0.75, 0.25]}, r"q\[1\] is -0.75"),
        ({"q": [1, 0, 0]}, "q is 0 at image 1, which was drawn"),
        ({"draws": [0, 3]}, r"draws holds 3; an image index is in 0\.\.2"),
        ({"draws": [0, -1]}, "draws holds -1"),
        ({"draws": [0.0, 1.0]}, "draws has shape"),
        ({"draws": [True, False]}, "type bool"),
        ({"draws": []}, "draws has shape"),
        ({"concept": [1.0]}, r"concept has shape \(1,\); expected \(2,\)"),
        ({"concept": [1.0, np.nan]}, r"concept\[1\] is nan"),
    ],
)
def test_a_mistake_is_named(changed, message):
    arguments = {"activation": [1, 2, 4], "q": [0.5, 0.25, 0.25], "draws": [0, 1], "concept": [0, 1]}
    with pytest.raises(AssayError, match=message):
        importance_correlation(**(arguments | changed))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("block_values", [1, 37, 1 << 20])
def test_correlations_are_pearsons_of_every_pair(dtype, block_values):
    rng = np.random.default_rng(6)
    a = (rng.normal(size=(50, 4)) + 100).astype(dtype)
    c = rng.random((50, 3))
    a[:, 1], c[:, 2] = 0.1, 0.3
    table = correlations(a, c, block_values)
    assert table.dtype == np.float64
    assert np.isnan(table[1]).all() and np.isnan(table[:, 2]).all()
    for unit, text in product([0, 2, 3], [0, 1]):
        expected = np.corrcoef(a[:, unit].astype(np.float64), c[:, text])[0, 1]
        assert table[unit, text] == pytest.approx(expected, abs=1e-12)
        assert table[unit, text] == pytest.approx(correlation(a[:, unit], c[:, text]), abs=1e-12)


def test_correlations_read_memory_mapped_arrays_of_huge_and_tiny_values(tmp_path):
    rng = np.random.default_rng(7)
    np.save(tmp_path / "layer.npy", rng.random((40, 2)) * [1e300, 1e-300])
    activations = np.load(tmp_path / "layer.npy", mmap_mode="r")
    c = (rng.random((40, 1)) < 0.5).astype(np.uint8)
    for unit in range(2):
        scaled = np.array(activations[:, unit]) / activations[0, unit]
        assert correlations(activations, c, 16)[unit, 0] == pytest.approx(np.corrcoef(scaled, c[:, 0])[0, 1])


@given(arrays(np.float32, (6, 3), elements=NUMBERS))
def test_correlations_never_leave_minus_one_to_one(data):
    table = correlations(data, data)
    assert np.all(np.isnan(table) | (np.abs(table) <= 1))
    diagonal = np.diag(table)
    np.testing.assert_allclose(diagonal[~np.isnan(diagonal)], 1)


def test_correlations_name_the_bad_cell():
    a = np.ones((5, 2))
    a[3, 1] = np.nan
    with pytest.raises(AssayError, match=r"activations\[3, 1\] is nan"):
        correlations(a, np.ones((5, 1)), 2)
    with pytest.raises(AssayError, match=r"activations \(5, 2\) and concepts \(4, 1\)"):
        correlations(a, np.ones((4, 1)))
