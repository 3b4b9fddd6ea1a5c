import numpy as np
import pytest

from pipeline.crowd import proposal
from pipeline.crowd.samplers.registry import NAMES, sampler
from pipeline.errors import AssayError
from pipeline.seeds import generator

ACTIVATION = np.array([0.0, 3, 1, 3, 0, 2])
PROBABILITY = np.array([0.1, 0.9, 0.2, 0.8, 0.1, 0.3])


@pytest.mark.parametrize("name", NAMES)
def test_every_sampler_returns_n_inputs_images_and_a_distribution(name):
    draws = sampler(name)(ACTIVATION, PROBABILITY, generator(0, name), n_inputs=4)
    assert draws.indices.shape == (4,)
    assert draws.indices.dtype == np.int64
    assert set(draws.indices) <= set(range(6))
    assert draws.q.shape == (6,)
    assert draws.q.sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_the_same_generator_draws_the_same_images(name):
    first, again = (sampler(name)(ACTIVATION, PROBABILITY, generator(1, "u"), n_inputs=5) for _ in range(2))
    assert first.indices.tolist() == again.indices.tolist()


@pytest.mark.parametrize(("name", "expected"), [("mgis", None), ("uniform", np.full(6, 1 / 6))])
def test_draws_follow_q_with_replacement(name, expected):
    draws = sampler(name)(ACTIVATION, PROBABILITY, generator(2), n_inputs=60_000)
    q = proposal(ACTIVATION, PROBABILITY) if expected is None else expected
    np.testing.assert_array_equal(draws.q, q)
    np.testing.assert_allclose(np.bincount(draws.indices, minlength=6) / 60_000, q, atol=0.01)
    assert draws.flags == ()


def test_mgis_takes_the_uniform_share():
    draws = sampler("mgis")(ACTIVATION, PROBABILITY, generator(3), n_inputs=2, uniform_share=0.7)
    np.testing.assert_array_equal(draws.q, proposal(ACTIVATION, PROBABILITY, 0.7))


def test_mgis_flags_the_fallback_and_its_reason():
    draws = sampler("mgis")(np.zeros(6), PROBABILITY, generator(4), n_inputs=3)
    assert draws.flags == ("uniform_proposal", "constant_activation")
    assert draws.q.tolist() == [1 / 6] * 6


def test_top_takes_the_most_active_and_of_equals_the_lowest_index():
    draws = sampler("top")(ACTIVATION, PROBABILITY, generator(5), n_inputs=5)
    assert draws.indices.tolist() == [1, 3, 5, 2, 0]
    assert draws.flags == ("top_images_only",)
    assert draws.q.tolist() == [1 / 6] * 6
    assert sampler("top")([0, 0, 0], [1, 1, 1], generator(6), n_inputs=2).indices.tolist() == [0, 1]


def test_top_refuses_more_images_than_there_are():
    with pytest.raises(AssayError, match="n_inputs is 7 but there are 6 images"):
        sampler("top")(ACTIVATION, PROBABILITY, generator(7), n_inputs=7)


@pytest.mark.parametrize("name", NAMES)
def test_bad_arguments_are_named(name):
    with pytest.raises(AssayError, match="n_inputs is 0"):
        sampler(name)(ACTIVATION, PROBABILITY, generator(8), n_inputs=0)
    with pytest.raises(AssayError, match="probability has shape"):
        sampler(name)(ACTIVATION, PROBABILITY[:3], generator(8), n_inputs=1)
    with pytest.raises(AssayError, match=r"activation\[0\] is nan"):
        sampler(name)(ACTIVATION * np.nan, PROBABILITY, generator(8), n_inputs=1)


def test_an_unknown_sampler_lists_the_known_ones():
    with pytest.raises(AssayError, match="unknown sampler 'active'; known: mgis, top, uniform"):
        sampler("active")
