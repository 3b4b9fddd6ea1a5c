import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.crowd import aggregate, bragg
from pipeline.errors import AssayError

COLUMNS = ["image_id", "description", "worker", "rating"]
VOTES = {"b.png": [True, True, False], "a.png": [False, False, False], "c.png": [True, True, True]}
RATINGS = pd.DataFrame(
    [(image, "red", f"w{i}", vote) for image, votes in VOTES.items() for i, vote in enumerate(votes)],
    columns=COLUMNS,
)


def prior_table(**priors: float) -> pd.DataFrame:
    rows = [(f"{name}.png", "red", prior) for name, prior in priors.items()]
    return pd.DataFrame(rows, columns=["image_id", "description", "prior"])


def one_pair(*votes: bool) -> pd.DataFrame:
    return pd.DataFrame([("a.png", "red", f"w{i}", vote) for i, vote in enumerate(votes)], columns=COLUMNS)


def test_bragg_gives_the_published_vectors():
    # Rounding the last one, .66385, gives .6638; the published figure is .6639.
    np.testing.assert_allclose(bragg([0, 1, 2, 3], 3, 0.05), [0.0014, 0.0155, 0.1498, 0.6639], atol=6e-5)
    assert bragg(0, 3, 0.999) == pytest.approx(0.9638, abs=5e-5)
    assert bragg(3, 3, 0.001) == pytest.approx(0.0362, abs=5e-5)


def test_three_unanimous_votes_multiply_the_odds_by_a_cube():
    odds = (1 / 19) * (77 / 23) ** 3
    assert bragg(3, 3, 0.05) == pytest.approx(odds / (1 + odds), rel=1e-14)


def test_one_vote_is_1_2083_logits():
    posterior = float(bragg(1, 1, 0.5))
    assert math.log(posterior / (1 - posterior)) == pytest.approx(1.2083, abs=5e-5)


@given(st.integers(0, 9), st.integers(0, 9), st.floats(0.001, 0.999), st.floats(0.01, 0.49))
def test_bragg_is_bayes_rule_with_equal_error_rates(yes, no, prior, error):
    present = prior * (1 - error) ** yes * error**no
    absent = (1 - prior) * error**yes * (1 - error) ** no
    assert bragg(yes, yes + no, prior, error) == pytest.approx(present / (present + absent), rel=1e-9)


@given(st.integers(0, 9), st.integers(0, 9), st.floats(0.001, 0.999), st.floats(0.01, 0.49))
def test_swapping_yes_and_no_mirrors_the_posterior(yes, no, prior, error):
    mirrored = 1 - bragg(no, yes + no, 1 - prior, error)
    assert bragg(yes, yes + no, prior, error) == pytest.approx(mirrored, abs=1e-12)


def test_bragg_broadcasts_and_keeps_the_prior_without_ratings():
    posterior = bragg(np.array([[0], [1]]), [1, 2, 3], [0.1, 0.2, 0.3])
    assert posterior.shape == (2, 3)
    assert posterior[1, 2] == bragg(1, 3, 0.3)
    assert bragg(0, 0, 0.3) == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1, 3, 0), r"prior is 0.0; it must be in \(0, 1\)"),
        ((1, 3, [0.5, 1]), "prior is 1.0"),
        ((1, 3, np.nan), "prior is nan"),
        ((1, 3, 0.5, 0), r"error_rate is 0.0; it must be in \(0, 0.5\)"),
        ((1, 3, 0.5, 0.5), "error_rate is 0.5"),
        ((4, 3, 0.5), "yes is 4"),
        ((-1, 3, 0.5), "yes is -1"),
    ],
)
def test_bragg_names_a_mistake(arguments, message):
    with pytest.raises(AssayError, match=message):
        bragg(*arguments)


def test_rows_come_by_first_appearance_with_counts():
    table = aggregate(RATINGS, "avg")
    assert list(table.columns) == ["image_id", "description", "n_ratings", "yes", "value", "flags"]
    assert table["image_id"].tolist() == ["b.png", "a.png", "c.png"]
    assert table["n_ratings"].tolist() == [3, 3, 3]
    assert table["yes"].tolist() == [2, 0, 3]
    assert table["value"].tolist() == [2 / 3, 0, 1]
    assert table["flags"].tolist() == ["", "", ""]


def test_interleaved_ratings_aggregate_as_sorted_ones_do():
    shuffled = RATINGS.iloc[[8, 0, 3, 1, 4, 7, 2, 5, 6]]
    table = aggregate(shuffled, "bragg_uniform")
    assert table["image_id"].tolist() == ["c.png", "b.png", "a.png"]
    whole = aggregate(RATINGS, "bragg_uniform").set_index("image_id")["value"]
    assert table.set_index("image_id")["value"].to_dict() == whole.to_dict()


@pytest.mark.parametrize(
    ("votes", "value", "flags"),
    [
        ([True, False], 0.5, "tie"),
        ([True, False, False, True], 0.5, "tie"),
        ([True, False, False], 0, ""),
        ([True, True, False], 1, ""),
        ([False], 0, ""),
    ],
)
def test_majority_is_one_zero_or_half_at_a_tie(votes, value, flags):
    table = aggregate(one_pair(*votes), "majority")
    assert table["value"].tolist() == [value]
    assert table["flags"].tolist() == [flags]


def test_bragg_uniform_defaults_to_prior_05_and_error_rate_23():
    table = aggregate(RATINGS, "bragg_uniform")
    assert table["value"].tolist() == bragg([2, 0, 3], 3, 0.05, 0.23).tolist()
    explicit = aggregate(RATINGS, "bragg_uniform", prior=0.05, error_rate=0.23)
    pd.testing.assert_frame_equal(table, explicit)
    other = aggregate(RATINGS, "bragg_uniform", prior=0.4, error_rate=0.1)
    assert other["value"].tolist() == bragg([2, 0, 3], 3, 0.4, 0.1).tolist()


def test_bragg_siglip_uses_each_pairs_prior_clipped():
    priors = prior_table(a=1.0, b=0.4, c=0.0, unused=0.7)
    table = aggregate(RATINGS, "bragg_siglip", prior=priors)
    assert table["value"].tolist() == bragg([2, 0, 3], 3, [0.4, 0.999, 0.001]).tolist()
    assert table["flags"].tolist() == ["", "prior_decides", "prior_decides"]


def test_a_prior_that_unanimous_raters_overturn_decides_nothing():
    table = aggregate(RATINGS, "bragg_siglip", prior=prior_table(a=0.9, b=0.9, c=0.1))
    assert table["flags"].tolist() == ["", "", ""]
    assert aggregate(one_pair(True, True), "bragg_uniform")["flags"].tolist() == ["prior_decides"]


def test_repeated_equal_priors_are_one_prior_and_unequal_ones_an_error():
    priors = prior_table(a=0.9, b=0.9, c=0.1)
    twice = pd.concat([priors, priors])
    pd.testing.assert_frame_equal(
        aggregate(RATINGS, "bragg_siglip", prior=twice), aggregate(RATINGS, "bragg_siglip", prior=priors)
    )
    with pytest.raises(AssayError, match=r"two priors for image 'a.png' with 'red'"):
        aggregate(RATINGS, "bragg_siglip", prior=pd.concat([priors, prior_table(a=0.8)]))


def test_words_that_look_like_missing_values_are_descriptions():
    ratings = RATINGS.assign(description=["nan", "null", "none"] * 3)
    table = aggregate(ratings, "avg")
    assert table["description"].tolist() == ["nan", "null", "none"] * 3


def test_numbers_count_as_votes_and_different_raters_may_differ_in_number():
    ratings = pd.concat([RATINGS.iloc[:4], one_pair(True).assign(worker="w9")])
    table = aggregate(ratings.assign(rating=ratings["rating"].astype(float)), "avg")
    assert table["n_ratings"].tolist() == [3, 2]
    assert table["value"].tolist() == [2 / 3, 0.5]


def test_no_ratings_give_an_empty_table_of_the_same_types():
    empty = aggregate(RATINGS.iloc[:0], "bragg_siglip", prior=prior_table())
    assert len(empty) == 0
    assert empty.dtypes.to_dict() == aggregate(RATINGS, "avg").dtypes.to_dict()


def test_the_ratings_are_left_as_they_were():
    before = RATINGS.copy()
    aggregate(RATINGS, "majority")
    pd.testing.assert_frame_equal(RATINGS, before)


@pytest.mark.parametrize(
    ("ratings", "method", "settings", "message"),
    [
        (RATINGS, "median", {}, "unknown aggregation 'median'; known: avg, majority, bragg_uniform"),
        (RATINGS, "bragg_siglip", {}, "bragg_siglip needs a table"),
        (RATINGS, "bragg_siglip", {"prior": 0.05}, "bragg_siglip needs a table"),
        (
            RATINGS,
            "bragg_siglip",
            {"prior": prior_table(a=0.5, b=0.5)},
            "no prior for image 'c.png' with 'red'",
        ),
        (RATINGS, "bragg_siglip", {"prior": prior_table(a=1.5)}, "prior of image 'a.png' with 'red' is 1.5"),
        (RATINGS, "bragg_siglip", {"prior": prior_table(a=np.nan)}, "prior in row 0 of prior is missing"),
        (RATINGS, "bragg_uniform", {"prior": prior_table(a=0.5)}, "bragg_uniform takes one prior"),
        (RATINGS, "bragg_uniform", {"prior": 1}, r"prior is 1.0; it must be in \(0, 1\)"),
        (RATINGS, "bragg_uniform", {"error_rate": 0.5}, r"error_rate is 0.5"),
        (RATINGS.drop(columns="worker"), "avg", {}, "ratings lacks the column 'worker'"),
        (RATINGS.assign(rating="yes"), "avg", {}, "rating in row 0 of ratings is yes"),
        (
            RATINGS.assign(rating=[True, None, *[False] * 7]),
            "avg",
            {},
            "rating in row 1 of ratings is missing",
        ),
        (
            pd.concat([RATINGS, RATINGS[4:5]]),
            "avg",
            {},
            "worker 'w1' rated image 'a.png' with 'red' more than",
        ),
    ],
)
def test_aggregate_names_a_mistake(ratings, method, settings, message):
    with pytest.raises(AssayError, match=message):
        aggregate(ratings, method, **settings)
