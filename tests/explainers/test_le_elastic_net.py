import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from le_oracles import descended, standard

from pipeline.explainers import elastic_net
from pipeline.explainers.elastic_net import Design, elastic_nets

STRENGTH, L1_RATIO = 0.05, 0.99


def design(values):
    exact = values.astype(np.float64)
    return Design(values, exact.mean(axis=1), exact.std(axis=1))


def problem(n_images=120, n_concepts=40, n_units=5, seed=0):
    """Correlated concepts (T, n) of 32-bit floats in [0, 1] and units that follow some of them."""
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=(n_images, 6))
    logits = hidden @ rng.normal(size=(6, n_concepts)) + rng.normal(size=(n_images, n_concepts))
    values = (1 / (1 + np.exp(-logits))).astype(np.float32)
    units = values @ (rng.normal(size=(n_concepts, n_units)) * (rng.random((n_concepts, n_units)) < 0.2))
    return values.T.copy(), standard(units + 0.2 * rng.normal(size=(n_images, n_units)))


def largest_violation(values, targets, weights, strength=STRENGTH, l1_ratio=L1_RATIO):
    """How far the weights (T, u) are from the optimality conditions."""
    x = standard(values.T.astype(np.float64))
    slope = x.T @ (targets - x @ weights) / len(x) - strength * (1 - l1_ratio) * weights
    threshold = strength * l1_ratio
    at_zero = np.maximum(np.abs(slope) - threshold, 0)
    return np.where(weights == 0, at_zero, np.abs(slope - threshold * np.sign(weights))).max()


@pytest.mark.parametrize(("strength", "l1_ratio"), [(0.05, 0.99), (0.2, 0.5), (0.01, 1.0)])
def test_weights_are_those_of_plain_coordinate_descent(strength, l1_ratio):
    values, targets = problem(n_concepts=15, n_units=3)
    weights, gaps = elastic_nets(design(values), targets, strength=strength, l1_ratio=l1_ratio)
    x = standard(values.T.astype(np.float64))
    expected = np.column_stack([descended(x, y, strength, l1_ratio, 400) for y in targets.T])
    assert (expected != 0).any() and (expected == 0).any()
    np.testing.assert_allclose(weights, expected, rtol=0, atol=2e-5)
    assert (gaps <= elastic_net.GAP).all()


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 1000),
    n_concepts=st.integers(1, 90),
    strength=st.sampled_from([0.01, 0.05, 0.3]),
    entering=st.integers(1, 40),
)
def test_the_optimality_conditions_hold_however_few_concepts_enter_a_round(
    seed, n_concepts, strength, entering
):
    values, targets = problem(n_images=60, n_concepts=n_concepts, n_units=3, seed=seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(elastic_net, "ENTERING", entering)
        weights, _ = elastic_nets(design(values), targets, strength=strength, l1_ratio=L1_RATIO)
    allowed = 2 * elastic_net.VIOLATION * strength
    assert largest_violation(values, targets, weights, strength) < allowed


def test_concepts_that_only_matter_beside_others_enter_later():
    """b is uncorrelated with the unit a - b + c, so it can only enter after the first round."""
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(2, 4000))
    second -= first * (first @ second) / (first @ first)
    both = np.stack([first + second, second])
    targets = standard((both[0] - both[1])[:, None] * 1.0)
    scaled = (both - both.mean(axis=1, keepdims=True)) / both.std(axis=1, keepdims=True)
    assert abs(scaled[1] @ targets[:, 0] / 4000) < STRENGTH * L1_RATIO
    weights, _ = elastic_nets(design(both), targets, strength=STRENGTH, l1_ratio=L1_RATIO)
    assert weights[0, 0] > 0.5 and weights[1, 0] < -0.3
    assert largest_violation(both, targets, weights) < 1e-5


def test_a_unit_that_nothing_correlates_with_has_no_weights():
    values, targets = problem()
    weights, gaps = elastic_nets(design(values), targets, strength=1.1, l1_ratio=1.0)
    assert not weights.any() and not gaps.any()


def test_other_units_move_no_unit():
    values, targets = problem(n_concepts=60, n_units=12)
    together, _ = elastic_nets(design(values), targets, strength=STRENGTH, l1_ratio=L1_RATIO)
    alone, _ = elastic_nets(design(values), targets[:, [7]], strength=STRENGTH, l1_ratio=L1_RATIO)
    np.testing.assert_allclose(together[:, [7]], alone, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(together[:, [7]] != 0, alone != 0)


def test_equal_concepts_share_a_weight():
    values, targets = problem(n_concepts=10, n_units=4)
    doubled = np.concatenate([values, values])
    weights, _ = elastic_nets(design(doubled), targets, strength=STRENGTH, l1_ratio=L1_RATIO)
    assert (weights != 0).any()
    np.testing.assert_allclose(weights[:10], weights[10:], rtol=0, atol=1e-5)


def test_too_few_sweeps_leave_a_gap_that_says_so(monkeypatch):
    values, targets = problem()
    monkeypatch.setattr(elastic_net, "MAX_SWEEPS", 1)
    _, gaps = elastic_nets(design(values), targets, strength=0.01, l1_ratio=L1_RATIO)
    assert (gaps > elastic_net.GAP).any()


def test_small_blocks_give_the_same_weights(monkeypatch):
    values, targets = problem(n_concepts=50)
    whole, _ = elastic_nets(design(values), targets, strength=STRENGTH, l1_ratio=L1_RATIO)
    monkeypatch.setattr("pipeline.explainers.explanations.BLOCK_BYTES", 8 * 120 * 7)
    blocked, _ = elastic_nets(design(values), targets, strength=STRENGTH, l1_ratio=L1_RATIO)
    np.testing.assert_allclose(blocked, whole, rtol=0, atol=1e-9)
