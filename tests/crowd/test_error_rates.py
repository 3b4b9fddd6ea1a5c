"""Error rates from disagreement and from gold answers."""

from math import isnan

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.crowd.agreement import error_rate_from_disagreement, error_rates_from_gold
from pipeline.errors import AssayError
from pipeline.seeds import generator

COLUMNS = ["image_id", "description", "worker", "rating"]


def table(*votes: str) -> pd.DataFrame:
    """One string of 0 and 1 an image: its raters' answers."""
    rows = [(f"img{i}", "red", f"w{k}", v == "1") for i, said in enumerate(votes) for k, v in enumerate(said)]
    return pd.DataFrame(rows, columns=COLUMNS)


def gold_of(*answers: int) -> pd.DataFrame:
    images = [f"img{i}" for i in range(len(answers))]
    return pd.DataFrame({"image_id": images, "description": "red", "answer": list(answers)})


def test_180_inputs_of_three_raters_give_23_percent_give_or_take_2():
    rates = []
    for k in range(100):
        rng = generator(0, "disagreement", k)
        present = rng.random(180) < 0.2
        said = present[:, None] ^ (rng.random((180, 3)) < 0.23)
        rates.append(
            error_rate_from_disagreement(table(*("".join("01"[int(v)] for v in row) for row in said)))
        )
    assert np.mean(rates) == pytest.approx(0.232, abs=0.006)
    assert np.std(rates) == pytest.approx(0.024, abs=0.005)


def test_disagreement_is_the_closed_form():
    # Two of eight pairs of raters differ: d = 1/4, so e = (1 - sqrt(1/2)) / 2, and 2 e (1 - e) = 1/4.
    rate = error_rate_from_disagreement(table("11", "00", "11", "00", "11", "00", "10", "01"))
    assert rate == pytest.approx((1 - 0.5**0.5) / 2)
    assert 2 * rate * (1 - rate) == pytest.approx(1 / 4)


@pytest.mark.parametrize(("votes", "rate"), [(["11", "00"], 0), (["10", "01"], 0.5), (["10", "11"], 0.5)])
def test_full_agreement_is_no_error_and_half_or_more_is_guessing(votes, rate):
    assert error_rate_from_disagreement(table(*votes)) == rate


@pytest.mark.parametrize("votes", [[], ["1", "0"]])
def test_without_two_ratings_of_an_input_nothing_is_known(votes):
    assert isnan(error_rate_from_disagreement(table(*votes)))


def test_gold_counts_misses_and_false_alarms_with_half_a_rating_more():
    miss, false_alarm, counts = error_rates_from_gold(table("110", "100", "000"), gold_of(1, 0, 0))
    assert (miss, false_alarm) == (pytest.approx(1.5 / 4), pytest.approx(1.5 / 7))
    assert (counts.n_present, counts.n_missed, counts.n_absent, counts.n_alarmed) == (3, 1, 6, 1)
    assert counts.reasons == ()


@given(
    st.lists(st.text("01", min_size=1, max_size=4), min_size=1, max_size=8),
    st.lists(st.integers(0, 1), min_size=1, max_size=8),
)
def test_gold_counts_equal_a_loop(votes, answers):
    counts = error_rates_from_gold(table(*votes), gold_of(*answers)).counts
    seen = [(a, v) for said, a in zip(votes, answers, strict=False) for v in said]
    assert (counts.n_present, counts.n_missed) == (sum(a for a, _ in seen), seen.count((1, "0")))
    assert (counts.n_absent, counts.n_alarmed) == (sum(1 - a for a, _ in seen), seen.count((0, "1")))


@pytest.mark.parametrize("rates", [(0.17, 0.02), (0.23, 0.23)])
def test_gold_finds_rates_that_differ(rates):
    rng = generator(0, "gold", *rates)
    present = rng.random(2000) < 0.5
    said = np.where(present, rng.random(2000) >= rates[0], rng.random(2000) < rates[1])
    found = error_rates_from_gold(table(*("01"[int(v)] for v in said)), gold_of(*present.astype(int)))
    assert found[:2] == pytest.approx(rates, abs=0.03)


def test_without_gold_of_a_kind_its_rate_is_unknown_and_the_reason_is_given():
    miss, false_alarm, counts = error_rates_from_gold(table("110"), gold_of(0))
    assert isnan(miss)
    assert false_alarm == pytest.approx(2.5 / 4)
    assert counts.reasons == ("no rated input has the gold answer yes, so misses are unknown",)
    nothing = error_rates_from_gold(table("110"), gold_of().astype({"answer": int}))
    assert isnan(nothing.miss)
    assert isnan(nothing.false_alarm)
    assert len(nothing.counts.reasons) == 2


@pytest.mark.parametrize(
    ("gold", "message"),
    [
        (gold_of(1).drop(columns="answer"), "gold lacks the column 'answer'"),
        (gold_of(1, 2), "answer in row 1 of gold is 2; it must be yes or no"),
        (pd.concat([gold_of(1), gold_of(0)]), "two gold answers to image 'img0' with 'red'; keep one"),
    ],
)
def test_a_mistake_in_the_gold_is_named(gold, message):
    with pytest.raises(AssayError, match=message):
        error_rates_from_gold(table("110"), gold)
