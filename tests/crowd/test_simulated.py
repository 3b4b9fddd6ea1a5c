from time import process_time

import numpy as np
import pandas as pd
import pytest

from pipeline.crowd import aggregate
from pipeline.crowd.simulated import simulate
from pipeline.errors import AssayError

SETTINGS = {"n_raters": 3, "miss": 0.3, "false_alarm": 0.1, "seed": 0}
RATING = ["image_id", "description", "worker"]


def pairs(n: int) -> pd.DataFrame:
    images = [f"image{i // 2}.png" for i in range(n)]
    texts = ["red" if i % 2 else "large, blue" for i in range(n)]
    return pd.DataFrame({"image_id": images, "description": texts, "truth": [i % 3 == 0 for i in range(n)]})


def by_rating(ratings: pd.DataFrame) -> dict:
    return ratings.set_index(RATING)[["rating", "assignment"]].to_dict("index")


def test_ratings_have_the_columns_of_the_contract():
    ratings = simulate(pairs(4), **SETTINGS)
    assert list(ratings.columns) == [
        "worker", "assignment", "image_id", "description", "rating", "status", "source", "row",
    ]  # fmt: skip
    assert ratings["worker"].tolist() == ["rater1", "rater2", "rater3"] * 4
    assert ratings["row"].tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert set(ratings["status"]) == {"Approved"}
    assert set(ratings["source"]) == {"simulated"}
    assert ratings["rating"].dtype == bool
    assert ratings["assignment"].is_unique


def test_known_ratings_do_not_move():
    ratings = simulate(pairs(6), **SETTINGS | {"miss": 0.5, "false_alarm": 0.5})
    assert "".join("01"[rating] for rating in ratings["rating"]) == "110101101101011011"
    assert ratings["assignment"][0] == "simulated-fcd03bd68f2a341f"


def test_a_rating_depends_only_on_seed_image_text_and_rater():
    base = by_rating(simulate(pairs(40), **SETTINGS))
    more_pairs = by_rating(simulate(pairs(60), **SETTINGS))
    more_raters = by_rating(simulate(pairs(40), **SETTINGS | {"n_raters": 7}))
    shuffled = by_rating(simulate(pairs(40).sample(frac=1, random_state=0), **SETTINGS))
    assert base.items() <= more_pairs.items()
    assert base.items() <= more_raters.items()
    assert base == shuffled
    assert base != by_rating(simulate(pairs(40), **SETTINGS | {"seed": 1}))


def test_texts_that_join_to_the_same_letters_are_rated_apart():
    rows = [("ab", "c"), ("a", "bc"), ("1 1", "x"), ("1", "1 x")] * 1
    table = pd.DataFrame(rows, columns=["image_id", "description"]).assign(truth=1)
    assert simulate(table, **SETTINGS)["assignment"].is_unique


@pytest.mark.parametrize(("miss", "false_alarm"), [(0, 0), (1, 1), (0, 1)])
def test_rates_of_zero_and_one_are_exact(miss, false_alarm):
    table = pairs(300)
    ratings = simulate(table, n_raters=2, miss=miss, false_alarm=false_alarm, seed=3)
    truth = np.repeat(table["truth"].to_numpy(), 2)
    wrong = np.where(truth, miss, false_alarm).astype(bool)
    assert (ratings["rating"].to_numpy() == (truth ^ wrong)).all()


def test_error_rates_are_met():
    table = pd.DataFrame({"image_id": [f"i{i}" for i in range(20_000)], "description": "red"})
    table["truth"] = np.arange(20_000) % 2
    rating = simulate(table, n_raters=1, miss=0.23, false_alarm=0.05, seed=0)["rating"].to_numpy()
    assert 1 - rating[1::2].mean() == pytest.approx(0.23, abs=0.013)
    assert rating[::2].mean() == pytest.approx(0.05, abs=0.007)


def test_a_higher_error_rate_keeps_every_mistake_of_a_lower_one():
    table = pairs(500)
    truth = np.repeat(table["truth"].to_numpy(), 3)
    low, high = (simulate(table, **SETTINGS | {"miss": m, "false_alarm": m})["rating"] for m in (0.1, 0.4))
    assert set(np.flatnonzero(low != truth)) < set(np.flatnonzero(high != truth))


def test_a_pair_is_rated_once_and_an_unknown_truth_not_at_all():
    table = pairs(4).assign(truth=[1.0, np.nan, 0.0, np.nan])
    ratings = simulate(pd.concat([table, table]), **SETTINGS)
    assert ratings["row"].tolist() == [0, 0, 0, 2, 2, 2]
    assert len(simulate(table.assign(truth=None), **SETTINGS)) == 0
    aggregate(ratings, "majority")


@pytest.mark.parametrize(
    ("changed", "settings", "message"),
    [
        ({"truth": [0, 0.5]}, {}, "truth in row 1 of pairs is 0.5; it must be 0, 1 or missing"),
        (
            {"image_id": "a", "description": "t", "truth": [0, 1]},
            {},
            "row 1 of pairs gives image 'a' with 't'",
        ),
        ({}, {"n_raters": 0}, "n_raters is 0"),
        ({}, {"miss": 1.1}, r"miss is 1.1; an error rate is in \[0, 1\]"),
        ({}, {"false_alarm": np.nan}, "false_alarm is nan"),
    ],
)
def test_a_mistake_is_named(changed, settings, message):
    with pytest.raises(AssayError, match=message):
        simulate(pairs(2).assign(**changed), **SETTINGS | settings)


def test_a_missing_column_is_named():
    with pytest.raises(AssayError, match="pairs lacks the column 'truth'; it has image_id, description"):
        simulate(pairs(2).drop(columns="truth"), **SETTINGS)


def test_a_hundred_thousand_ratings_take_seconds():
    table = pd.DataFrame({"image_id": [f"i{i}" for i in range(34_000)], "description": "red", "truth": 1})
    start = process_time()
    assert len(simulate(table, **SETTINGS)) == 102_000
    assert process_time() - start < 5
