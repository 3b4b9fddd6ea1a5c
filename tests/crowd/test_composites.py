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
from pipeline.explainers.explanations import assemble
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


def test_the_band_moves_every_concept_to_where_it_moves_the_value():
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
    signs = {"red": 1, "blue": 1, "round": -1}
    given = zip(CONCEPTS, values["value"], strict=True)
    moved = {c: expit(logit(np.array([v])) + signs[c] * BAND) for c, v in given}
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


def negation(n_studies=60, frequency=0.02, n_inputs=180):
    """Studies of a unit that responds where a rare concept is not: draws, truth, population."""
    composition = Not("red")
    rng = generator(0, "negation")
    truth = {"red": (rng.random(N) < frequency).astype(float)}
    scorer = {"red": expit(rng.normal(0, 1, N) + 4 * truth["red"] - 5)}
    activation = standardised(combine(composition, truth) + rng.normal(0, 0.25, N))
    probability = combine(composition, scorer)
    key = {"method": "m", "unit": 0, "description": "NOT red", "composition": to_json(composition)}
    bins = pd.DataFrame(population_bins(activation, probability)).assign(**key)
    for _ in range(n_studies):
        drawn = sampler("mgis")(activation, probability, rng, n_inputs=n_inputs)
        i = drawn.indices
        columns = {"activation": activation[i], "probability": probability[i], "q": drawn.q[i], "stratum": 0}
        columns |= {"image_id": [f"i{k}" for k in i], "weight": 1 / (N * drawn.q[i]), "flags": ""}
        columns["concept_probabilities"] = [[scorer["red"][k]] for k in i]
        yield pd.DataFrame({**key, **columns}), truth, activation, bins


def test_the_papers_estimator_is_as_good_for_the_negation_of_a_rare_concept_as_for_the_concept():
    """Without the scorer's mean taken off, its moments are noise where nearly every image counts."""
    found, plain = [], []
    for draws, truth, activation, bins in negation():
        exact = np.corrcoef(activation, 1 - truth["red"])[0, 1]
        ratings = ratings_of(draws, truth)
        found.append(rescored(draws, ratings, N, "avg", population=bins).table["estimate"].item())
        red = draws.drop(columns=["composition", "concept_probabilities"])
        red = red.assign(description="red", probability=1 - red["probability"])
        plain.append(-rescored(red, ratings, N, "avg").table["estimate"].item())
    assert np.mean(found) == pytest.approx(exact, abs=0.03)
    assert np.std(found) < 1.5 * np.std(plain)


def test_one_description_of_two_makings_is_refused():
    rows = {"unit": [3, 8], "description": ["red AND round"] * 2}
    described = pd.DataFrame({**rows, "composition": [to_json(And(("red", "round"))), ""]})
    with pytest.raises(AssayError, match="units 3 and 8 have the text 'red AND round'"):
        assemble("mine", [3, 8], described, {})
