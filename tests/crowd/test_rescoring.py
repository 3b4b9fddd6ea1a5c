"""From draws and ratings to scores: every aggregation with every estimator that goes with it."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from pipeline.crowd.aggregation import METHODS
from pipeline.crowd.arrays import standardised
from pipeline.crowd.estimation import Estimation
from pipeline.crowd.population import population_bins
from pipeline.crowd.rescoring import rescored
from pipeline.crowd.samplers.registry import sampler
from pipeline.crowd.simulated import simulate
from pipeline.errors import AssayError
from pipeline.seeds import generator

N_IMAGES = 3000
QUICK = [name for name in METHODS if name not in ("glad", "mace", "dawid_skene")]
OF_TRUTH = [("bragg_em", "combined"), ("bragg_em", "disattenuated"), ("bragg_siglip", "combined")]


def study(n_units: int = 16, n_inputs: int = 150, replacement: bool = True, opposite: bool = False):
    """Return draws, pairs with their truth, population and the true correlations of n_units.

    opposite: the scorer is surest of the images without the concept.
    """
    draws, pairs, populations, truth = [], [], [], []
    for unit in range(n_units):
        rng = generator(0, "rescoring", unit)
        present = rng.random(N_IMAGES) < 0.2
        s = expit(3 * (rng.normal(0, 1, N_IMAGES) + 2 * present) - 4.5 - 1.4)
        s = np.clip(1 - 0.3 * s, 0, 1 - 1e-6) if opposite else s
        a = standardised(rng.exponential(1, N_IMAGES) + 1.5 * present * rng.exponential(1, N_IMAGES))
        drawn = sampler("active")(a, s, rng, n_inputs=n_inputs, replacement=replacement)
        key = {"method": "m", "unit": unit, "description": f"text {unit}"}
        i = drawn.indices
        images = [f"i{k}" for k in i]
        q = drawn.q[i]
        values = {
            "image_id": images,
            "activation": a[i],
            "probability": s[i],
            "q": q,
            "weight": 1 / (N_IMAGES * q),
        }
        draws.append(pd.DataFrame({**values, "stratum": 0, **key, "flags": ""}))
        pairs.append(
            pd.DataFrame({"image_id": images, "description": key["description"], "truth": present[i]})
        )
        populations.append(population_bins(a, s).assign(**key))
        truth.append(np.corrcoef(a, present)[0, 1])
    tables = [pd.concat(part, ignore_index=True) for part in (draws, pairs, populations)]
    return *tables, np.array(truth)


DRAWS, PAIRS, POPULATION, TRUTH = study()
RATINGS = simulate(PAIRS.astype({"truth": int}), n_raters=3, miss=0.2, false_alarm=0.05, seed=0)


def scores(aggregation="bragg_em", estimator="combined", ratings=RATINGS, draws=DRAWS, **options):
    settings = Estimation(estimator, **options)
    return rescored(draws, ratings, N_IMAGES, aggregation, estimation=settings, population=POPULATION).table


@pytest.mark.parametrize("estimator", ["importance", "self_normalised", "horvitz_thompson", "difference"])
@pytest.mark.parametrize("aggregation", QUICK)
def test_every_aggregation_has_every_estimate_with_its_interval(aggregation, estimator):
    table = scores(aggregation, estimator)
    assert (table["low"] < table["high"]).all()
    assert (table["target"] == "rated").all()
    has_prior = aggregation.startswith("bragg")
    assert table["band_low"].notna().all() == has_prior
    if has_prior:
        assert (table["band_low"] <= table["estimate"] + 1e-12).all()
        assert (table["estimate"] <= table["band_high"] + 1e-12).all()


@pytest.mark.parametrize(("aggregation", "estimator"), OF_TRUTH)
def test_estimates_of_the_truth_are_near_it(aggregation, estimator):
    table = scores(aggregation, estimator)
    assert (table["target"] == "truth").all()
    assert np.mean(np.abs(table["estimate"] - TRUTH)) < 0.08
    assert ((table["low"] <= TRUTH) & (table["high"] >= TRUTH)).mean() >= 0.8


def test_the_bootstrap_is_of_its_seed():
    few = DRAWS[DRAWS["unit"] < 2]
    one, same, other = (scores(draws=few, interval="bootstrap", seed=seed) for seed in (1, 1, 2))
    assert one["low"].equals(same["low"])
    assert not one["low"].equals(other["low"])
    assert one["estimate"].equals(other["estimate"])


@pytest.mark.parametrize("estimator", ["combined", "disattenuated"])
def test_the_truth_is_not_estimated_from_votes_without_the_scorer(estimator):
    with pytest.raises(AssayError, match=f"estimator={estimator} estimates the truth from posteriors"):
        scores("majority", estimator)


def test_a_study_without_what_is_known_of_all_images_says_so():
    with pytest.raises(AssayError, match=r"frozen without them; take estimator=importance"):
        rescored(DRAWS, RATINGS, N_IMAGES, "bragg_em", estimation=Estimation("combined"))


def test_unrated_units_are_nan_and_flagged():
    rated = RATINGS[RATINGS["description"] != "text 0"]
    table = scores(ratings=rated)
    assert table.loc[table["unit"] == 0, "flags"].tolist() == ["no_interval;no_ratings;unrated_draws"]
    assert table.loc[table["unit"] != 0, "estimate"].notna().all()
    nothing = scores(ratings=RATINGS.head(0))
    assert nothing["estimate"].isna().all()


def kept(n_raters: int, rating: bool | None = None) -> pd.DataFrame:
    ratings = RATINGS[RATINGS["worker"].isin([f"rater{k}" for k in range(1, n_raters + 1)])]
    return ratings if rating is None else ratings.assign(rating=rating)


@pytest.mark.parametrize(
    ("ratings", "finite"),
    [(kept(1), True), (kept(2), True)],
    ids=["one worker", "even m"],
)
def test_few_raters_have_a_defined_result(ratings, finite):
    table = scores(ratings=ratings)
    assert np.isfinite(table["estimate"]).all() == finite


@pytest.mark.parametrize(("rating", "flag"), [(False, "no_yes"), (True, "all_yes")])
def test_votes_that_all_say_the_same_have_no_interval_about_the_truth(rating, flag):
    table = scores(ratings=kept(3, rating=rating))
    assert table[["low", "high"]].isna().all(axis=None)
    assert table["flags"].str.contains(flag).all()
    assert table["flags"].str.contains("no_interval").all()


@pytest.mark.parametrize("probability", [0.0, 1.0])
def test_priors_of_0_and_1_are_held_inside(probability):
    table = scores(draws=DRAWS.assign(probability=probability))
    assert len(table) == 16
    assert not np.isinf(table["estimate"]).any()


def test_a_constant_activation_has_no_score():
    table = scores(draws=DRAWS.assign(activation=np.nan))
    assert table["estimate"].isna().all()
    assert table["flags"].str.contains("constant_activation").all()


def test_each_images_influence_adds_up_to_the_standard_error():
    found = rescored(
        DRAWS.drop_duplicates(["unit", "image_id"]),
        RATINGS,
        N_IMAGES,
        "bragg_em",
        estimation=Estimation("difference"),
        population=POPULATION,
    )
    sums = found.influence.groupby("unit")["influence"].apply(lambda part: np.sqrt((part**2).sum()))
    np.testing.assert_allclose(sums, found.table["std_error"], rtol=1e-9)


@pytest.mark.parametrize("rates", [None, (0.2, 0.05)])
def test_a_scorer_sure_of_the_opposite_is_flagged_and_undone_by_known_rates(rates):
    draws, pairs, population, truth = study(opposite=True)
    ratings = simulate(pairs.astype({"truth": int}), n_raters=3, miss=0.2, false_alarm=0.05, seed=0)
    table = rescored(
        draws,
        ratings,
        N_IMAGES,
        "bragg_em",
        error_rate=rates,
        estimation=Estimation("combined"),
        population=population,
    ).table
    covers = ((table["low"] <= truth) & (table["high"] >= truth)).mean()
    if rates is None:
        assert table["flags"].str.contains("rare_or_blind").all()
        assert covers < 0.5
    else:
        assert covers >= 0.8
