"""bragg_em with a table of priors: recalibrated on the votes of other images."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit, logit

from pipeline.crowd.aggregation import aggregate
from pipeline.crowd.aggregation.posterior import posterior_of_votes
from pipeline.crowd.aggregation.priors import pair_priors
from pipeline.crowd.aggregation.recalibration import fit_calibration, recalibrated_priors
from pipeline.crowd.aggregation.votes import count_votes
from pipeline.errors import AssayError
from pipeline.seeds import generator

RATES = (0.17, 0.02)


def study(
    n_texts: int, slope: float, spread: float, *names: object, n_pairs: int = 180, rates=RATES, m: int = 3
) -> tuple[pd.DataFrame, pd.DataFrame, np.ndarray, np.ndarray]:
    """Ratings, a miscalibrated scorer's table, the truth, and the posterior of one who knows all rates."""
    rng = generator(0, n_texts, slope, spread, *names)
    n = n_texts * n_pairs
    text, image = np.repeat(np.arange(n_texts), n_pairs), np.arange(n) % (2 * n_pairs)
    logits = rng.normal(-2.5, 2, n)
    present = rng.random(n) < expit(logits)
    score = expit(slope * logits + rng.normal(-1, spread, n_texts)[text])
    said = np.where(present[:, None], rng.random((n, m)) >= rates[0], rng.random((n, m)) < rates[1])
    ratings = pd.DataFrame(
        {
            "image_id": np.repeat(image, m),
            "description": np.repeat(text, m),
            "worker": np.tile(np.arange(m), n),
            "rating": said.ravel(),
        }
    )
    priors = pd.DataFrame({"image_id": image, "description": text, "prior": score})
    return ratings, priors, present, posterior_of_votes(said.sum(axis=1), m, expit(logits), *rates)


def brier(value: object, present: np.ndarray) -> float:
    return float(np.mean((np.asarray(value) - present) ** 2))


@pytest.mark.parametrize("rates", [RATES, (0.23, 0.23)])
def test_a_miscalibrated_scorer_becomes_nearly_as_good_as_the_true_chances(rates):
    ratings, priors, present, oracle = study(20, 0.5, 1, rates=rates)
    found = brier(aggregate(ratings, "bragg_em", prior=priors)["value"], present)
    assert found < brier(aggregate(ratings, "bragg_siglip", prior=priors)["value"], present)
    assert found < brier(aggregate(ratings, "bragg_em")["value"], present)
    assert found < 1.15 * brier(oracle, present)


def test_the_scorers_slope_and_offset_are_undone():
    ratings, priors, _, _ = study(10, 0.5, 0, n_pairs=600)
    votes = count_votes(ratings)
    given_priors, weight = pair_priors(votes, priors)
    found = recalibrated_priors(votes, given_priors, weight, error_rate=RATES)
    # The scorer says .5 logit - 1: the true logit is 2 score + 2.
    truth = np.clip(2 * logit(given_priors) + 2, -6.9, 6.9)
    assert np.abs(expit(truth) - found.prior).mean() < 0.02


def test_a_pairs_own_votes_never_enter_its_prior():
    ratings, priors, _, _ = study(3, 0.7, 1)
    turned = ratings["image_id"] == 7
    other = ratings.assign(rating=ratings["rating"] ^ turned)
    before, after = (
        recalibrated_priors(votes, *pair_priors(votes, priors)).prior
        for votes in (count_votes(ratings), count_votes(other))
    )
    own = count_votes(ratings).pairs["image_id"] == 7
    assert own.sum() == 2
    np.testing.assert_array_equal(before[own], after[own])
    assert not np.array_equal(before[~own], after[~own])


def test_the_order_of_rows_and_the_type_of_ids_do_not_matter():
    ratings, priors, _, _ = study(3, 0.7, 1)
    key = ["image_id", "description"]
    plain = aggregate(ratings, "bragg_em", prior=priors)
    shuffled = aggregate(ratings.sample(frac=1, random_state=0), "bragg_em", prior=priors[::-1])
    pd.testing.assert_frame_equal(
        plain.sort_values(key, ignore_index=True), shuffled.sort_values(key, ignore_index=True)
    )
    texts = dict.fromkeys(key, "str")
    as_text = aggregate(ratings.astype(texts), "bragg_em", prior=priors.astype(texts))
    np.testing.assert_allclose(plain["value"], as_text["value"], rtol=1e-6)


@st.composite
def calibrations(draw: st.DrawFn) -> tuple:
    n, n_texts = draw(st.integers(1, 40)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    return (
        rng.normal(-2, draw(st.sampled_from([0, 1, 3])), n),
        rng.integers(0, n_texts, n),
        n_texts,
        rng.choice([-4.5, -1, 2, 6], n),
        rng.choice([0.2, 1, 5], n),
    )


@given(data=calibrations())
@settings(max_examples=60, deadline=None)
def test_the_objective_never_falls_and_more_probable_stays_more_probable(data):
    found = fit_calibration(*data)
    assert found.converged
    assert np.all(np.diff(found.log_posterior) >= -1e-9)
    assert found.slope >= 0


def test_em_reaches_what_a_general_optimiser_finds():
    rng = generator(3)
    n, n_texts = 300, 3
    score, text = rng.normal(-2, 2, n), rng.integers(0, n_texts, n)
    evidence, weight = rng.choice([-4.5, -1, 2, 6], n), rng.choice([0.2, 1, 3], n)

    def loss(at: np.ndarray) -> float:
        offsets, slope, level = at[:n_texts], at[n_texts], at[n_texts + 1]
        p = expit(offsets[text] + slope * score)
        votes = np.log(p * np.exp(evidence) + 1 - p) @ (weight / weight.mean())
        return ((offsets - level) ** 2).sum() / 2 + (slope - 1) ** 2 / 2 + level**2 / 18 - votes

    best = minimize(
        loss, np.r_[np.zeros(n_texts), 1, 0], bounds=[*[(None, None)] * n_texts, (0, None), (None,) * 2]
    )
    found = fit_calibration(score, text, n_texts, evidence, weight)
    assert -found.log_posterior[-1] == pytest.approx(best.fun, abs=1e-4)
    np.testing.assert_allclose([*found.offsets, found.slope, found.level], best.x, atol=0.02)


def test_a_scorer_that_is_wrong_throughout_is_flattened_not_turned_round():
    rng = generator(4)
    score = rng.normal(0, 2, 400)
    evidence = np.where(rng.random(400) < expit(-score), 6.0, -6.0)
    found = fit_calibration(score, np.zeros(400, dtype=np.int64), 1, evidence, np.ones(400))
    assert found.slope == 0
    assert expit(found.offsets[0]) == pytest.approx(0.5, abs=0.1)


def test_without_votes_scores_stay_as_they_are():
    nothing = np.zeros(0)
    found = fit_calibration(nothing, nothing.astype(np.int64), 2, nothing, nothing)
    np.testing.assert_allclose(found.prior(logit([0.3, 0.8]), np.array([0, 1])), [0.3, 0.8])


def test_weights_decide_which_pairs_count():
    score, text = np.full(200, -2.0), np.zeros(200, dtype=np.int64)
    evidence = np.repeat([6.0, -6.0], 100)
    even = fit_calibration(score, text, 1, evidence, np.ones(200)).prior(score, text)[0]
    few = fit_calibration(score, text, 1, evidence, np.repeat([0.1, 1.0], 100)).prior(score, text)[0]
    assert even == pytest.approx(0.5, abs=0.02)
    assert few == pytest.approx(0.1 / 1.1, abs=0.02)


def test_one_image_keeps_its_priors_clipped_and_says_so():
    ratings = pd.DataFrame(
        [("a", text, f"w{i}", True) for text in ("red", "blue", "dark") for i in range(3)],
        columns=["image_id", "description", "worker", "rating"],
    )
    priors = pd.DataFrame({"image_id": "a", "description": ["red", "blue", "dark"], "prior": [0.0, 1.0, 0.3]})
    found = aggregate(ratings, "bragg_em", prior=priors, error_rate=0.23)
    expected = posterior_of_votes(3, 3, [0.001, 0.999, 0.3], 0.23, 0.23)
    np.testing.assert_allclose(found["value"], expected, rtol=1e-9)
    assert found["flags"].tolist() == ["prior_decides;prior_as_given", "prior_as_given", "prior_as_given"]


def test_priors_of_0_and_1_are_clipped():
    ratings, priors, _, _ = study(2, 1, 0)
    priors.loc[:20, "prior"], priors.loc[21:40, "prior"] = 0.0, 1.0
    value = aggregate(ratings, "bragg_em", prior=priors)["value"]
    assert value.between(0, 1, inclusive="neither").all()


def test_ratings_of_one_a_pair_still_take_the_prior_and_the_assumed_rates():
    ratings, priors, present, _ = study(10, 0.5, 1, m=1)
    found = aggregate(ratings, "bragg_em", prior=priors)
    assert brier(found["value"], present) < brier(aggregate(ratings, "bragg_em")["value"], present)
    assert found["flags"].str.contains("rates_assumed").all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weight": 0.0}, "weight of image 0 with 0 is 0.0; it must be positive"),
        ({"weight": np.inf}, "weight of image 0 with 0 is inf"),
        ({"prior": 1.5}, r"prior of image 0 with 0 is 1.5; it must be in \[0, 1\]"),
    ],
)
def test_a_mistake_in_the_table_is_named(change, message):
    ratings, priors, _, _ = study(1, 1, 0, n_pairs=5)
    with pytest.raises(AssayError, match=message):
        aggregate(ratings, "bragg_em", prior=priors.assign(**change))


def test_a_pair_without_a_prior_is_named():
    ratings, priors, _, _ = study(1, 1, 0, n_pairs=5)
    with pytest.raises(AssayError, match="no prior for image 4 with 0"):
        aggregate(ratings, "bragg_em", prior=priors.iloc[:4])
