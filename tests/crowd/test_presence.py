"""The presence model: recovers what made the votes, and equals a literal EM."""

import numpy as np
import pytest
from scipy.special import expit, logit

from pipeline.crowd.presence import PresenceModel, fit_presence, population_of
from pipeline.errors import AssayError


def votes(seed: int, n: int = 20_000, miss: float = 0.17, false_alarm: float = 0.05, floor: float = 0.03):
    rng = np.random.default_rng(seed)
    probability = expit(rng.normal(-2, 2, n))
    true = floor + (1 - floor) * expit(-0.5 + 1.3 * logit(probability))
    present = rng.random(n) < true
    yes = rng.binomial(3, np.where(present, 1 - miss, false_alarm))
    return probability, yes, np.full(n, 3), present


def test_what_made_the_votes_is_found():
    probability, yes, n_ratings, _ = votes(0)
    model = fit_presence(probability, yes, n_ratings, np.ones(len(yes)))
    assert model.converged
    assert model.miss == pytest.approx(0.17, abs=0.02)
    assert model.false_alarm == pytest.approx(0.05, abs=0.005)
    assert model.offset == pytest.approx(-0.5, abs=0.1)
    assert model.slope == pytest.approx(1.3, abs=0.1)
    assert model.floor == pytest.approx(0.03, abs=0.007)


def test_posteriors_are_calibrated():
    probability, yes, n_ratings, present = votes(1)
    model = fit_presence(probability, yes, n_ratings, np.ones(len(yes)))
    posterior = model.posterior(model.prior(probability), yes, n_ratings)
    for low, high in ((0, 0.1), (0.1, 0.5), (0.5, 0.9), (0.9, 1)):
        inside = (posterior >= low) & (posterior <= high)
        assert posterior[inside].mean() == pytest.approx(present[inside].mean(), abs=0.03)


def literal(probability, yes, n_ratings, weight, miss, false_alarm, n_steps=2000):
    """EM over single draws, one Newton step of the logistic regression each time."""
    x, w = logit(probability), weight / weight.mean()
    offset, slope, floor = 0.0, 1.0, 0.02
    for _ in range(n_steps):
        seen = expit(offset + slope * x)
        prior = floor + (1 - floor) * seen
        evidence = yes * np.log((1 - miss) / false_alarm) + (n_ratings - yes) * np.log(
            miss / (1 - false_alarm)
        )
        present = expit(logit(prior) + evidence)
        blind = present * floor / prior
        label, share = present - blind, 1 - blind
        pull = np.array([(w * (label - share * seen)).sum(), (w * (label - share * seen) * x).sum()])
        pull -= np.array([offset / 100, slope - 1])
        curve = w * share * seen * (1 - seen)
        hessian = np.array(
            [[curve.sum() + 0.01, (curve * x).sum()], [(curve * x).sum(), (curve * x * x).sum() + 1]]
        )
        offset, slope = np.array([offset, slope]) + np.clip(np.linalg.solve(hessian, pull), -1, 1)
        floor = ((w * blind).sum() + 0.1) / (w.sum() + 50.1)
    return offset, slope, floor


def test_cells_give_what_single_draws_give():
    probability, yes, n_ratings, _ = votes(2, n=1500)
    weight = np.random.default_rng(0).uniform(0.2, 5, 1500)
    model = fit_presence(probability, yes, n_ratings, weight, error_rate=(0.17, 0.05))
    offset, slope, floor = literal(probability, yes, n_ratings, weight, 0.17, 0.05)
    assert model.offset == pytest.approx(offset, abs=0.02)
    assert model.slope == pytest.approx(slope, abs=0.02)
    assert model.floor == pytest.approx(floor, abs=0.002)


def test_reliability_is_how_far_votes_move_a_prior_towards_the_truth():
    model = PresenceModel(0.0, 1.0, 1e-12, 0.2, 0.1)
    rng = np.random.default_rng(3)
    after = [model.posterior(0.3, rng.binomial(3, chance, 200_000), 3).mean() for chance in (1 - 0.2, 0.1)]
    assert float(model.reliability(0.3, 3)) == pytest.approx(after[0] - after[1], abs=0.003)
    assert float(model.reliability(0.3, 0)) == pytest.approx(0, abs=1e-12)
    assert float(model.reliability(0.3, 60)) == pytest.approx(1, abs=1e-3)


def test_population_means_are_those_of_the_images():
    rng = np.random.default_rng(4)
    s, abar = rng.random(500), rng.normal(size=500)
    model = PresenceModel(0.2, 1.1, 0.01, 0.2, 0.1)
    found = population_of(model, np.ones(500), s, abar, [3, 3, 5])
    prior = model.prior(s)
    assert float(found.mean) == pytest.approx(prior.mean(), rel=1e-12)
    assert float(found.product) == pytest.approx((abar * prior).mean(), rel=1e-12)
    assert float(found.square) == pytest.approx((prior**2).mean(), rel=1e-12)
    reliability = (2 * model.reliability(prior, 3) + model.reliability(prior, 5)) / 3
    assert float(found.reliable) == pytest.approx((prior * (1 - prior) * reliability).mean(), rel=1e-12)
    assert float(found.blind) == pytest.approx((0.01 * (1 - model.seen(s))).mean() / prior.mean(), rel=1e-12)


@pytest.mark.parametrize("yes", [np.zeros(50, int), np.full(50, 3), np.tile([0, 3], 25)])
def test_few_or_uniform_votes_have_a_defined_model(yes):
    model = fit_presence(np.full(50, 0.1), yes, np.full(50, 3), np.ones(50))
    values = (model.offset, model.slope, model.floor, model.miss, model.false_alarm)
    assert np.isfinite(values).all()
    assert 0 < model.miss + model.false_alarm < 1


@pytest.mark.parametrize("probability", [0.0, 1.0])
def test_probabilities_of_0_and_1_are_held_inside(probability):
    model = fit_presence(np.full(10, probability), np.ones(10, int), np.full(10, 3), np.ones(10))
    assert 0 < float(model.prior(probability)) < 1


def test_no_votes_leave_the_scorer_as_it_is():
    model = fit_presence([], [], [], [])
    assert (model.offset, model.slope) == (0.0, 1.0)
    assert float(model.prior(0.3)) == pytest.approx(0.3, abs=0.02)


def test_rates_that_make_a_yes_speak_against_the_concept_are_refused():
    with pytest.raises(AssayError, match="below 1"):
        fit_presence([0.5], [1], [3], [1.0], error_rate=(0.6, 0.5))


def test_a_shift_moves_the_odds_of_every_image():
    model = PresenceModel(0.0, 1.0, 0.01, 0.2, 0.1, shift=np.log(2))
    plain = PresenceModel(0.0, 1.0, 0.01, 0.2, 0.1).prior(0.3)
    shifted = model.prior(0.3)
    assert shifted / (1 - shifted) == pytest.approx(2 * plain / (1 - plain))


@pytest.mark.parametrize("surely", [0.95, 0.999, 1 - 1e-6])
def test_a_scorer_sure_of_the_opposite_leaves_rates_better_than_chance(surely):
    """Votes and scorer contradict each other. The rates found are not the true ones, but they are rates."""
    rng = np.random.default_rng(0)
    present = rng.random(600) < 0.4
    yes = rng.binomial(3, np.where(present, 0.7, 0.1))
    model = fit_presence(np.where(present, 0.7, surely), yes, np.full(600, 3), np.ones(600))
    assert model.miss + model.false_alarm < 1
    assert np.isfinite([model.offset, model.slope, model.floor]).all()
