"""Estimators: closed cases, oracles, gradients, coverage of what each names as its target."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.crowd.correlation import correlation, drawn_correlation
from pipeline.crowd.estimators import Population, Sample, estimate
from pipeline.crowd.estimators.combined import combined
from pipeline.crowd.estimators.disattenuated import scale
from pipeline.crowd.estimators.paired import paired_difference
from pipeline.crowd.estimators.registry import NAMES, TARGETS, estimator
from pipeline.crowd.presence import PresenceModel, population_of
from pipeline.errors import AssayError

RATED = [name for name, target in TARGETS.items() if target == "rated"]


def world(
    seed: int, n_images: int = 400, frequency: float = 0.2
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return standardised activation, a calibrated probability and the presence of a concept, (N,) each."""
    rng = np.random.default_rng(seed)
    present = rng.random(n_images) < frequency
    evidence = rng.normal(0, 1, n_images) + 2 * present
    odds = np.exp(2 * evidence - 2) * frequency / (1 - frequency)
    activation = rng.exponential(1, n_images) + present * rng.exponential(2, n_images)
    return (activation - activation.mean()) / activation.std(), odds / (1 + odds), present.astype(float)


def known(abar: np.ndarray, s: np.ndarray, reliability: float = 1.0, blind: float = 0.0) -> Population:
    spread = (s * (1 - s)).mean()
    values = (s.mean(), (abar * s).mean(), (s * s).mean(), spread, reliability * spread, blind)
    return Population(*map(np.asarray, values))


def everything(abar: np.ndarray, c: np.ndarray, s: np.ndarray) -> Sample:
    return Sample(abar, np.ones_like(abar), c, s)


@pytest.mark.parametrize("name", TARGETS)
def test_every_image_drawn_once_gives_pearsons_correlation(name):
    abar, s, c = world(0)
    found = estimate(name, everything(abar, c, s), known(abar, s))
    assert float(found.rho) == pytest.approx(correlation(abar, c), abs=1e-12)


def test_importance_is_the_papers_estimator():
    abar, _, c = world(1)
    rng = np.random.default_rng(2)
    q = (np.abs(abar) + 0.1) / (np.abs(abar) + 0.1).sum()
    rows = rng.choice(len(q), 60, p=q)
    weight = 1 / (len(q) * q[rows])
    found = estimate("importance", Sample(abar[rows], weight, c[rows]))
    assert float(found.rho) == pytest.approx(drawn_correlation(abar[rows], weight, c[rows]), abs=1e-12)


def test_a_perfect_prediction_leaves_the_difference_estimator_without_error():
    abar, _, c = world(3)
    rows = np.random.default_rng(0).integers(len(c), size=30)
    found = estimate("difference", Sample(abar[rows], np.ones(30), c[rows], c[rows]), known(abar, c))
    assert float(found.rho) == pytest.approx(correlation(abar, c), abs=1e-12)


@pytest.mark.parametrize("name", TARGETS)
@given(seed=st.integers(0, 10_000))
def test_the_gradient_is_the_slope_of_the_estimate(name, seed):
    abar, s, c = world(seed, n_images=50)
    rows = np.random.default_rng(seed).integers(50, size=40)
    if np.ptp(c[rows]) == 0:
        return
    sample = Sample(abar[rows], np.random.default_rng(seed).uniform(0.5, 2, 40), 0.1 + 0.8 * c[rows], s[rows])
    population, chosen = known(abar, s), estimator(name)
    moments = chosen.terms(sample, population).mean(axis=-1)
    with np.errstate(invalid="ignore"):
        rho, gradient = chosen.correlation(moments, population)
        if not np.isfinite(rho):
            return
        n_terms = len(moments) - (name in ("difference", "disattenuated"))  # the tuning is taken as fixed
        for i in range(n_terms):
            step = 1e-6 * max(1.0, abs(moments[i])) * np.eye(len(moments))[i]
            above, below = (chosen.correlation(moments + sign * step, population)[0] for sign in (1, -1))
            slope = (above - below) / (2 * step[i])
            assert gradient[i] == pytest.approx(slope, rel=1e-3, abs=1e-4)


def test_a_batch_is_its_members():
    abar, s, c = world(4)
    rows = np.random.default_rng(1).integers(len(c), size=(3, 50))
    batch = Sample(abar[rows], np.ones((3, 50)), c[rows], s[rows])
    one = known(abar, s)
    many = Population(*(np.repeat(getattr(one, name), 3) for name in one.__dataclass_fields__))
    for name in TARGETS:
        together = estimate(name, batch, many)
        for i in range(3):
            alone = estimate(name, Sample(abar[rows[i]], np.ones(50), c[rows[i]], s[rows[i]]), one)
            for field in ("rho", "std_error", "df", "low", "high"):
                assert getattr(together, field)[i] == pytest.approx(float(getattr(alone, field)), rel=1e-12)


def interval_covers(name: str, interval: str, n_repeats: int) -> float:
    abar, s, c = world(5, n_images=2000, frequency=0.3)
    q = np.sqrt(s * (1 - s) + 0.05)
    q /= q.sum()
    truth, hits = correlation(abar, c), 0
    rng = np.random.default_rng(6)
    for _ in range(n_repeats):
        rows = rng.choice(2000, 150, p=q)
        sample = Sample(abar[rows], 1 / (2000 * q[rows]), c[rows], s[rows])
        found = estimate(name, sample, known(abar, s), interval=interval, rng=rng)
        hits += bool(found.low <= truth <= found.high)
    return hits / n_repeats


@pytest.mark.parametrize("name", TARGETS)
def test_delta_intervals_cover_where_nothing_is_rare(name):
    assert 0.92 <= interval_covers(name, "delta", 500) <= 0.98


def test_bootstrap_intervals_cover_where_nothing_is_rare():
    assert 0.8 <= interval_covers("difference", "bootstrap", 25) <= 1


def test_the_attenuation_of_noisy_votes_is_undone():
    """300 raters' worth of posteriors at 3 votes an image: only the disattenuated estimate is unbiased."""
    abar, s, c = world(7, n_images=4000)
    model = PresenceModel(0.0, 1.0, 1e-12, 0.23, 0.23)
    rng = np.random.default_rng(8)
    estimates = {"difference": [], "disattenuated": []}
    population = population_of(model, np.ones(4000), s, abar, [3])
    for _ in range(200):
        rows = rng.integers(4000, size=200)
        yes = rng.binomial(3, np.where(c[rows] > 0, 0.77, 0.23))
        sample = Sample(abar[rows], np.ones(200), model.posterior(s[rows], yes, 3), s[rows])
        for name, found in estimates.items():
            found.append(float(estimate(name, sample, population).rho))
    truth = correlation(abar, c)
    assert np.mean(estimates["disattenuated"]) == pytest.approx(truth, abs=0.02)
    assert abs(np.mean(estimates["difference"]) - truth) > 0.02


def test_strata_reduce_the_error_that_is_claimed():
    abar, s, c = world(9)
    order = np.argsort(s)
    stratum = np.repeat([0, 1], 200)
    sample = Sample(abar[order], np.ones(400), c[order], s[order])
    plain = estimate("horvitz_thompson", sample)
    strata = estimate("horvitz_thompson", Sample(abar[order], np.ones(400), c[order], s[order], stratum))
    assert strata.std_error < plain.std_error


@pytest.mark.parametrize("name", NAMES)
def test_a_constant_presence_has_no_estimate(name):
    abar, s, _ = world(10)
    sample = everything(abar, np.zeros(400), s)
    if name == "combined":
        found = combined(sample, known(abar, s)).disattenuated
    else:
        found = estimate(name, sample, known(abar, s))
    assert np.isnan([found.rho, found.low, found.high]).all()


def test_one_draw_has_no_interval():
    found = estimate("importance", Sample(np.ones(1), np.ones(1), np.ones(1)))
    assert np.isnan([found.rho, found.low, found.high]).all()


def test_votes_that_say_nothing_are_scaled_tenfold_at_most():
    abar, s, _ = world(11)
    assert float(scale(known(abar, s, reliability=1e-6))) == 10
    assert float(scale(known(abar, s, reliability=0.5))) == pytest.approx(2)
    assert float(scale(known(abar, s, reliability=0.0))) == 1


def test_a_blind_scorer_is_flagged_and_leaves_the_interval_alone():
    abar, s, c = world(12, n_images=2000)
    rows = np.random.default_rng(0).integers(2000, size=400)
    sample = Sample(abar[rows], np.ones(400), c[rows], s[rows])
    clear = combined(sample, known(abar, s))
    assert not clear.rare_or_blind
    assert (clear.estimate.low, clear.estimate.high) == (clear.disattenuated.low, clear.disattenuated.high)
    blind = combined(sample, known(abar, s, blind=0.1))
    assert blind.rare_or_blind
    assert (blind.estimate.low, blind.estimate.high) == (blind.disattenuated.low, blind.disattenuated.high)


def test_a_share_that_cannot_be_told_leans_on_the_scorer():
    abar, s, c = world(13, n_images=2000, frequency=0.02)
    rows = np.random.default_rng(3).integers(2000, size=60)
    weight = np.full(60, 1.0)
    weight[c[rows] > 0] = 8.0
    found = combined(Sample(abar[rows], weight, c[rows], s[rows]), known(abar, s))
    assert found.uncertain
    assert found.rare_or_blind
    assert float(found.estimate.rho) == float(found.difference.rho)
    assert found.estimate.low == min(found.disattenuated.low, found.difference.low)
    assert found.estimate.high == max(found.disattenuated.high, found.difference.high)


def test_estimators_that_predict_say_what_they_lack():
    abar, s, c = world(14)
    with pytest.raises(AssayError, match="needs the scorer's probability of each draw"):
        estimate("difference", Sample(abar, np.ones(400), c), known(abar, s))
    with pytest.raises(AssayError, match=r"population\.parquet"):
        estimate("disattenuated", everything(abar, c, s))
    with pytest.raises(AssayError, match="unknown estimator 'mean'; known: importance"):
        estimate("mean", everything(abar, c, s))
    with pytest.raises(AssayError, match="bootstrap interval needs rng"):
        estimate("importance", everything(abar, c, s), interval="bootstrap")


def test_what_two_texts_share_cancels_in_their_difference():
    shared = {"a": 0.1, "b": -0.2}
    same = paired_difference((0.5, 0.4), (shared, shared))
    assert same.difference == pytest.approx(0.1)
    assert np.isnan(same.low)
    apart = paired_difference((0.5, 0.4), (shared, {"c": 0.1, "d": -0.2}))
    assert apart.std_error == pytest.approx(np.sqrt(2 * 0.05))
    assert apart.n_shared == 0
    near = paired_difference((0.5, 0.4), (shared, {"a": 0.1, "b": -0.1}))
    assert near.std_error == pytest.approx(0.1)
    assert near.n_shared == 2
