import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.crowd import proposal
from pipeline.crowd.proposal import active_proposal
from pipeline.crowd.samplers.drawing import draw_from, inclusion_probabilities
from pipeline.crowd.samplers.registry import NAMES, sampler
from pipeline.crowd.samplers.stratified import allocated, strata
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
    with pytest.raises(
        AssayError, match="unknown sampler 'odd'; known: active, mgis, stratified, top, uniform"
    ):
        sampler("odd")


# --- active, stratified, without replacement ----------------------------------------------------
MANY = np.random.default_rng(0)
S = 1 / (1 + np.exp(-MANY.normal(-2, 2, 300)))
A = MANY.exponential(1, 300) + 2 * S
WITHOUT = [name for name in NAMES if name != "top"]


def literal_active(a, s, uniform_share, floor, mgis_share):
    abar, mu = (a - a.mean()) / a.std(), s.mean()
    rho = np.mean(abar * (s - mu)) / s.std()
    score = [
        abs(x - rho * (1 - 2 * mu) / (2 * np.sqrt(mu * (1 - mu)))) * np.sqrt(p * (1 - p) + floor * mu)
        for x, p in zip(abar, s, strict=True)
    ]
    product = [abs(x * (p - mu)) for x, p in zip(abar, s, strict=True)]
    return np.array(
        [
            (1 - uniform_share) * ((1 - mgis_share) * v / sum(score) + mgis_share * w / sum(product))
            + uniform_share / len(s)
            for v, w in zip(score, product, strict=True)
        ]
    )


@pytest.mark.parametrize("settings", [(0.1, 0.1, 0.5), (0.3, 0.0, 0.0), (0.2, 1.0, 1.0)])
def test_the_active_proposal_is_its_formula(settings):
    np.testing.assert_allclose(active_proposal(A, S, *settings), literal_active(A, S, *settings), rtol=1e-12)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ((0, 0.1, 0.5), "uniform_share is 0"),
        ((0.1, -1, 0.5), "floor is -1"),
        ((0.1, 0.1, 2), "mgis_share is 2"),
    ],
)
def test_settings_of_the_active_proposal_are_checked(settings, message):
    with pytest.raises(AssayError, match=message):
        active_proposal(A, S, *settings)


@pytest.mark.parametrize("name", WITHOUT)
def test_without_replacement_no_image_is_drawn_twice_and_inclusion_is_n_q(name):
    draws = sampler(name)(A, S, generator(0, name), n_inputs=60, replacement=False)
    assert len(set(draws.indices)) == 60
    np.testing.assert_allclose(draws.inclusion, 60 * draws.q[draws.indices], rtol=1e-12)
    assert draws.q.sum() == pytest.approx(1)
    with pytest.raises(AssayError, match="n_inputs is 301 but there are 300 images"):
        sampler(name)(A, S, generator(0, name), n_inputs=301, replacement=False)
    everything = sampler(name)(A, S, generator(0, name), n_inputs=300, replacement=False)
    assert sorted(everything.indices) == list(range(300))


def test_pareto_sampling_includes_each_image_as_often_as_it_says():
    q = active_proposal(A, S)
    inclusion = inclusion_probabilities(q, 60)
    counts, rng = np.zeros(300), generator(1)
    for _ in range(4000):
        counts[draw_from(q, 60, rng, replacement=False).indices] += 1
    error = (counts / 4000 - inclusion) / np.sqrt(np.maximum(inclusion * (1 - inclusion), 1e-12) / 4000)
    assert inclusion.sum() == pytest.approx(60)
    assert (counts[inclusion == 1] == 4000).all()
    assert np.abs(error[inclusion < 1]).max() < 4.5


@pytest.mark.parametrize("name", ["active", "stratified"])
def test_horvitz_thompson_totals_are_unbiased(name):
    means = []
    for repeat in range(600):
        draws = sampler(name)(A, S, generator(repeat, name), n_inputs=40, replacement=False)
        means.append(np.mean(A[draws.indices] / (300 * draws.q[draws.indices])))
    assert np.mean(means) == pytest.approx(A.mean(), abs=4 * np.std(means) / np.sqrt(600))


@pytest.mark.parametrize("name", ["active", "mgis", "stratified"])
def test_coordinated_draws_of_near_proposals_share_most_images(name):
    near = np.clip(S * 1.05, 0, 1)
    one, same, other = (
        set(sampler(name)(A, s, generator(5, "unit"), n_inputs=60, replacement=False).indices)
        for s in (S, S, near)
    )
    alone = set(sampler(name)(A, near, generator(6, "unit"), n_inputs=60, replacement=False).indices)
    assert one == same
    assert len(one & other) > 50
    assert len(one & other) > len(one & alone)


def test_one_stream_gives_two_samplers_many_images_in_common():
    """Each image has one number whatever the sampler, so the overlap is near the sum of least inclusions."""
    q = [sampler(name)(A, S, generator(0), n_inputs=60).q for name in ("active", "uniform")]
    most = np.minimum(*(inclusion_probabilities(each, 60) for each in q)).sum()
    shared = []
    for repeat in range(200):
        one, other = (
            set(sampler(name)(A, S, generator(repeat), n_inputs=60, replacement=False).indices)
            for name in ("active", "uniform")
        )
        shared.append(len(one & other))
    assert np.mean(shared) == pytest.approx(most, rel=0.05)


@pytest.mark.parametrize("n_inputs", [1, 2, 7, 60, 200])
def test_strata_share_out_all_draws_and_give_unbiased_weights(n_inputs):
    draws = sampler("stratified")(A, S, generator(7), n_inputs=n_inputs)
    counts = np.bincount(draws.stratum)
    assert len(draws.indices) == n_inputs
    assert len(counts) <= 10
    assert counts.min() >= min(2, n_inputs)
    assert draws.q.sum() == pytest.approx(1)
    weight = 1 / (300 * draws.q[draws.indices])
    assert weight.mean() == pytest.approx(1)


@pytest.mark.parametrize("name", ["active", "stratified"])
def test_what_does_not_vary_is_drawn_uniformly_and_flagged(name):
    draws = sampler(name)(np.zeros(6), PROBABILITY, generator(4), n_inputs=3)
    assert draws.flags == ("uniform_proposal", "constant_activation")
    np.testing.assert_allclose(draws.q, 1 / 6)


def test_equal_scores_make_equal_strata():
    assert np.bincount(strata(np.ones(10), 2)).tolist() == [5, 5]
    assert np.bincount(strata(np.ones(100), 10)).tolist() == [10] * 10


def test_a_stratum_of_all_the_score_leaves_two_images_for_each_other():
    stratum = strata(np.array([1e-9] * 7 + [1.0]), 10)
    assert np.bincount(stratum).min() >= 2
    assert stratum[-1] == stratum.max()


@pytest.mark.parametrize(
    ("score", "n_inputs", "expected"),
    [
        ([0.9, 0.05, 0.05], 40, [36, 2, 2]),
        ([0.7, 0.1, 0.1, 0.1], 11, [5, 2, 2, 2]),
        ([0.55, 0.25, 0.2], 21, [12, 5, 4]),
        ([1, 1, 1], 10, [3, 3, 4]),
    ],
)
def test_draws_go_by_score_then_by_largest_remainder_then_to_the_higher_stratum(score, n_inputs, expected):
    found = allocated(np.array(score, dtype=float), np.full(len(score), 100), n_inputs, True)
    assert found.tolist() == expected


@given(st.lists(st.tuples(st.floats(1e-9, 1), st.integers(2, 50)), min_size=1, max_size=12), st.data())
def test_an_allocation_is_whole_and_within_its_bounds(parts, data):
    score, sizes = np.array([p[0] for p in parts]), np.array([p[1] for p in parts])
    replacement = data.draw(st.booleans())
    n_inputs = data.draw(st.integers(2 * len(parts), 500 if replacement else int(sizes.sum())))
    found = allocated(score, sizes, n_inputs, replacement)
    assert found.sum() == n_inputs
    assert (found >= 2).all()
    assert replacement or (found <= sizes).all()


def test_inclusion_above_one_is_certain_and_the_rest_is_scaled_up_again():
    """q n = 2, .6, .6, .4, .4: one is certain, and then .6 / 2 * 3 = .9, .9, .6, .6."""
    inclusion = inclusion_probabilities(np.array([0.5, 0.15, 0.15, 0.1, 0.1]), 4)
    np.testing.assert_allclose(inclusion, [1, 0.9, 0.9, 0.6, 0.6], rtol=1e-12)
    assert inclusion_probabilities(np.array([0.6, 0.3, 0.1]), 3).tolist() == [1, 1, 1]


def test_a_mean_that_rounds_to_one_still_gives_a_distribution():
    almost_sure = np.array([1.0] * 9 + [1 - 2**-53])
    assert almost_sure.mean() == 1
    q = active_proposal(np.arange(10), almost_sure)
    assert q.sum() == pytest.approx(1)
    assert (q > 0).all()


def test_a_probability_outside_0_and_1_is_named():
    with pytest.raises(AssayError, match=r"probability\[2\] is 1\.5; it must be in \[0, 1\]"):
        active_proposal([1, 2, 3], [0, 1, 1.5])
