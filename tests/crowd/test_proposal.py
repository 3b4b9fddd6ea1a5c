import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pipeline.crowd import proposal
from pipeline.crowd.proposal import uniform_reasons
from pipeline.errors import AssayError

LENGTH = st.shared(st.integers(1, 30), key="length")
ACTIVATION = LENGTH.flatmap(lambda n: arrays(np.float64, n, elements=st.floats(-1e300, 1e300)))
PROBABILITY = LENGTH.flatmap(lambda n: arrays(np.float64, n, elements=st.floats(0, 1)))
SHARE = st.floats(0.01, 1)


def literal_proposal(a: list[float], c: list[float], share: float) -> list[float]:
    n = len(a)
    mean_a, mean_c = sum(a) / n, sum(c) / n
    sd_a = (sum((x - mean_a) ** 2 for x in a) / n) ** 0.5
    sd_c = (sum((x - mean_c) ** 2 for x in c) / n) ** 0.5
    product = [abs((x - mean_a) / sd_a * (y - mean_c) / sd_c) for x, y in zip(a, c, strict=True)]
    return [(1 - share) * x / sum(product) + share / n for x in product]


def test_known_answer_of_four_images():
    # abar = cbar = (-1, -1, -1, 3) / sqrt(3): products 1/3, 1/3, 1/3, 3.
    q = proposal([0, 0, 0, 4], [0.1, 0.1, 0.1, 0.9])
    np.testing.assert_allclose(q, [0.8 / 12 + 0.05] * 3 + [0.8 * 9 / 12 + 0.05], rtol=1e-14)


def test_proposal_equals_its_literal_form():
    rng = np.random.default_rng(0)
    a, c = rng.normal(size=200) ** 2, rng.random(200)
    np.testing.assert_allclose(proposal(a, c, 0.3), literal_proposal(list(a), list(c), 0.3), rtol=1e-12)


@given(ACTIVATION, PROBABILITY, SHARE)
def test_q_sums_to_one_and_bounds_every_weight(activation, probability, share):
    q = proposal(activation, probability, share)
    assert q.dtype == np.float64
    assert q.sum() == pytest.approx(1, abs=1e-12)
    assert (1 / len(q) / q).max() <= (1 / share) * (1 + 1e-12)


@given(ACTIVATION, PROBABILITY, st.randoms(use_true_random=False))
def test_reordering_the_images_reorders_q(activation, probability, random):
    order = random.sample(range(len(activation)), len(activation))
    whole = proposal(activation, probability)
    # Magnitudes up to 1e300 leave the mean's last bits to the order of summation.
    np.testing.assert_allclose(proposal(activation[order], probability[order]), whole[order], atol=1e-6)


@pytest.mark.parametrize("scale", [1e-300, 1e-6, -3.0, 1e300])
def test_scale_of_the_activation_does_not_matter(scale):
    rng = np.random.default_rng(1)
    a, c = rng.random(50), rng.random(50)
    np.testing.assert_allclose(proposal(a * scale, c), proposal(a, c), rtol=1e-10)


@pytest.mark.parametrize(
    ("activation", "probability", "reasons"),
    [
        ([0.1] * 7, [0, 0, 0, 0, 0, 1, 1], ("constant_activation",)),
        ([0, 0, 0, 0, 0, 1, 1], [0.1] * 7, ("constant_probability",)),
        ([0.3] * 7, [0.1] * 7, ("constant_activation", "constant_probability")),
        ([1, -1, 0, 0], [0.5, 0.5, 0, 1], ("zero_product",)),
        ([5], [0.5], ("constant_activation", "constant_probability")),
    ],
)
def test_a_proposal_without_information_is_uniform_and_says_why(activation, probability, reasons):
    assert proposal(activation, probability).tolist() == [1 / len(activation)] * len(activation)
    assert uniform_reasons(activation, probability) == reasons


def test_an_informed_proposal_has_no_reason_to_be_uniform():
    assert uniform_reasons([0, 1, 2], [0, 0.1, 0.9]) == ()


def test_share_one_is_uniform_and_half_precision_is_read_as_numbers():
    np.testing.assert_allclose(proposal(np.float16([1, 2, 4]), np.float32([0, 1, 0.5]), 1), [1 / 3] * 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1, 2], [0.5]), r"probability has shape \(1,\); expected \(2,\)"),
        (([[1, 2]], [0.5]), r"activation has shape \(1, 2\)"),
        (([], []), "activation is empty"),
        (([1, np.nan], [0.5, 0.1]), r"activation\[1\] is nan"),
        (([1, 2], [np.inf, 0.1]), r"probability\[0\] is inf"),
        (([1, 2], [0.5, 0.1], 0), r"uniform_share is 0; it must be in \(0, 1\]"),
        (([1, 2], [0.5, 0.1], 1.01), "uniform_share is 1.01"),
        (([1, 2], [0.5, 0.1], np.nan), "uniform_share is nan"),
    ],
)
def test_a_mistake_is_named(arguments, message):
    with pytest.raises(AssayError, match=message):
        proposal(*arguments)
