"""A composite text is asked concept by concept, and its value is combined from what people said."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logit

from pipeline.composition import And, Linear, Not, Or, combine, describe, linear, to_json
from pipeline.crowd.aggregation import aggregate
from pipeline.crowd.arrays import standardised
from pipeline.crowd.composites import BAND, asked, composed, compositions
from pipeline.crowd.correlation import drawn_correlation
from pipeline.crowd.estimation import Estimation
from pipeline.crowd.population import one_bin, population_bins
from pipeline.crowd.rescoring import rescored
from pipeline.crowd.samplers.registry import sampler
from pipeline.crowd.scores import correlation_scores
from pipeline.crowd.simulated import simulate
from pipeline.errors import AssayError
from pipeline.seeds import generator

N = 4000
FORMULA = And((Or(("red", "blue")), Not("round")))
SUM = linear([(0.8, "red"), (0.5, "round"), (-0.4, "blue")])
CONCEPTS = ("red", "blue", "round")


def world(composition, n_inputs=400, seed=0):
    """A unit that responds to the composition: draws, truths, the scorer's probabilities, and more."""
    rng = generator(seed, "composites", describe(composition))
    truth = {concept: (rng.random(N) < 0.3).astype(float) for concept in CONCEPTS}
    scorer = {c: expit(rng.normal(0, 1, N) + 3 * t - 2.2) for c, t in truth.items()}
    activation = standardised(combine(composition, truth) + rng.normal(0, 0.7, N))
    probability = combine(composition, scorer)
    drawn = sampler("mgis")(activation, probability, rng, n_inputs=n_inputs)
    i = drawn.indices
    key = {
        "method": "m",
        "unit": 0,
        "description": describe(composition),
        "composition": to_json(composition),
    }
    own = [concept for concept in CONCEPTS if concept in describe(composition)]
    columns = {
        "image_id": [f"i{k}" for k in i],
        "activation": activation[i],
        "probability": probability[i],
        "q": drawn.q[i],
        "weight": 1 / (N * drawn.q[i]),
        "stratum": 0,
        "flags": "",
        "concept_probabilities": [[scorer[c][k] for c in concepts_in_order(composition)] for k in i],
    }
    assert own
    known = one_bin if isinstance(composition, Linear) else lambda a, s: dict(population_bins(a, s))
    bins = pd.DataFrame(known(activation, probability)).assign(**key)
    return pd.DataFrame({**key, **columns}), truth, scorer, activation, bins


def concepts_in_order(composition):
    return ["red", "round", "blue"] if isinstance(composition, Linear) else list(CONCEPTS)


def ratings_of(draws, truth, error=0.0):
    pairs = asked(draws)[["image_id", "description"]].drop_duplicates(ignore_index=True)
    rows = [truth[text][int(image[1:])] for image, text in pairs.itertuples(index=False)]
    return simulate(pairs.assign(truth=rows), n_raters=3, miss=error, false_alarm=error, seed=0)


@pytest.mark.parametrize("composition", [FORMULA, SUM], ids=["formula", "sum"])
def test_people_are_asked_about_every_concept_of_every_draw_with_its_own_probability(composition):
    draws, _, scorer, *_ = world(composition)
    questions = asked(draws)
    assert len(questions) == 3 * len(draws)
    assert "composition" not in questions and set(questions["description"]) == set(CONCEPTS)
    for image, text, probability in questions[["image_id", "description", "probability"]].itertuples(
        index=False
    ):
        assert probability == scorer[text][int(image[1:])]


def test_plain_texts_are_asked_as_they_are():
    plain = pd.DataFrame({"image_id": ["a"], "description": ["red"], "probability": [0.5]})
    assert asked(plain) is plain
    mixed = pd.concat([plain.assign(composition="", concept_probabilities=None), world(FORMULA)[0]])
    assert asked(mixed)["description"].tolist()[0] == "red"
    assert len(asked(mixed)) == 1 + 3 * 400
    assert compositions(plain) == {"red": "red"}


@pytest.mark.parametrize("composition", [FORMULA, SUM], ids=["formula", "sum"])
@pytest.mark.parametrize("name", ["avg", "majority", "bragg_uniform", "bragg_siglip", "bragg_em"])
def test_with_raters_who_never_err_the_score_is_that_of_the_true_composition(composition, name):
    draws, truth, _, activation, _ = world(composition, n_inputs=1500)
    found = rescored(draws, ratings_of(draws, truth), N, name).table.iloc[0]
    exact = np.corrcoef(activation, combine(composition, truth))[0, 1]
    assert found["estimate"] == pytest.approx(exact, abs=0.08)
    assert found["low"] < exact < found["high"]


@pytest.mark.parametrize("composition", [FORMULA, SUM], ids=["formula", "sum"])
def test_the_estimate_is_literally_that_of_the_combined_values(composition):
    draws, truth, *_ = world(composition)
    ratings = ratings_of(draws, truth, 0.2)
    values = aggregate(ratings, "avg").set_index(["image_id", "description"])["value"]
    combined = [
        combine(composition, {c: np.array([values[image, c]]) for c in CONCEPTS})[0]
        for image in draws["image_id"]
    ]
    expected = drawn_correlation(
        draws["activation"].to_numpy(), draws["weight"].to_numpy(), np.array(combined)
    )
    table = rescored(draws, ratings, N, "avg").table
    assert table["estimate"].item() == pytest.approx(expected, abs=1e-12)
    assert table["n_ratings"].item() == len(ratings)


@pytest.mark.parametrize("composition", [FORMULA, SUM], ids=["formula", "sum"])
@pytest.mark.parametrize("name", ["bragg_siglip", "bragg_em", "bragg_uniform"])
def test_the_difference_estimator_works_with_composites_and_is_near_the_truth(composition, name):
    draws, truth, _, activation, bins = world(composition, n_inputs=1500)
    found = rescored(
        draws, ratings_of(draws, truth), N, name, estimation=Estimation("difference"), population=bins
    ).table.iloc[0]
    exact = np.corrcoef(activation, combine(composition, truth))[0, 1]
    assert found["estimate"] == pytest.approx(exact, abs=0.08)
    assert np.isfinite([found["low"], found["band_low"], found["band_high"]]).all()


def test_the_band_moves_every_concepts_odds():
    values = pd.DataFrame(
        {
            "image_id": ["a", "a", "a"],
            "description": list(CONCEPTS),
            "value": [0.9, 0.2, 0.4],
            "yes": [3, 0, 1],
            "n_ratings": [3, 3, 3],
            "flags": ["", "tie", "tie;prior_decides"],
        }
    )
    row = composed(values, world(FORMULA)[0].head(1).assign(image_id="a")).iloc[0]
    moved = {c: expit(logit(np.array([v])) + BAND) for c, v in zip(CONCEPTS, values["value"], strict=True)}
    assert row["value"] == pytest.approx((1 - 0.1 * 0.8) * 0.6)
    assert row["value_above"] == pytest.approx(combine(FORMULA, moved)[0])
    assert (row["yes"], row["n_ratings"], row["flags"]) == (4, 9, "prior_decides;tie")


def test_an_image_of_which_one_concept_is_unrated_counts_as_unrated():
    draws, truth, *_ = world(FORMULA)
    ratings = ratings_of(draws, truth)
    image = draws["image_id"].iloc[0]
    partial = ratings[~((ratings["image_id"] == image) & (ratings["description"] == "blue"))]
    table = rescored(draws, partial, N, "avg").table
    assert "unrated_draws" in table["flags"].item()
    assert table["n_images"].item() == draws["image_id"].nunique() - 1


@pytest.mark.parametrize("name", ["combined", "disattenuated"])
def test_an_estimator_of_one_presence_refuses_composites(name):
    draws, truth, _, _, bins = world(FORMULA)
    with pytest.raises(AssayError, match=r"made of .*several concepts"):
        rescored(draws, ratings_of(draws, truth), N, "bragg_em", estimation=Estimation(name), population=bins)


@pytest.mark.parametrize("composition", [FORMULA, SUM], ids=["formula", "sum"])
def test_the_automatic_score_is_the_correlation_with_the_combined_probabilities(composition):
    draws, _, scorer, activation, _ = world(composition)
    explanations = draws[["method", "unit", "description", "composition"]].head(1)
    concepts = np.stack([scorer[c] for c in CONCEPTS], axis=1)
    table = correlation_scores(explanations, activation[:, None], [0], concepts, CONCEPTS)
    expected = np.corrcoef(activation, combine(composition, scorer))[0, 1]
    assert table["estimate"].item() == pytest.approx(expected, abs=1e-12)


def test_a_sum_without_a_positive_value_is_not_called_a_concept_on_no_image():
    below = linear([(-0.5, "red"), (-0.2, "blue")])
    row = {"method": ["m"], "unit": [0], "description": [describe(below)], "composition": [to_json(below)]}
    concepts = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0], [1.0, 1.0]])
    table = correlation_scores(pd.DataFrame(row), np.arange(4.0)[:, None], [0], concepts, ["red", "blue"])
    assert table["flags"].item() == "no_interval"
