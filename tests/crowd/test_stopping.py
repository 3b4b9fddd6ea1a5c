"""An input is not rated further once its posterior is decisive."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipeline.crowd.aggregation import bragg
from pipeline.crowd.stopping import decisive, n_asked, stop_prior


def test_two_no_on_a_rare_concept_decide_and_two_yes_do_not() -> None:
    assert decisive([0, 1, 2], 2, 0.05, 0.23).tolist() == [True, False, False]
    assert bragg(2, 2, 0.05).round(4) == 0.371


def test_one_rating_never_decides() -> None:
    assert not decisive([0, 1], 1, [0.001, 0.999], 0.23).any()


@given(
    st.lists(st.lists(st.booleans(), min_size=5, max_size=5), min_size=1, max_size=8),
    st.floats(0.001, 0.999),
    st.floats(0.05, 0.45),
)
def test_raters_are_asked_one_by_one_until_the_rule_holds(
    ratings: list[list[bool]], prior: float, error_rate: float
) -> None:
    expected = []
    for row in ratings:
        asked = 0
        while asked < len(row):
            asked += 1
            if (
                asked >= 2
                and not -1e-12 <= bragg(sum(row[:asked]), asked, prior, error_rate) - 0.05 <= 0.9 + 1e-12
            ):
                break
        expected.append(asked)
    assert n_asked(ratings, np.full(len(ratings), prior), error_rate).tolist() == expected


def test_the_prior_of_the_rule_is_the_one_of_the_aggregation() -> None:
    probability = np.array([0.0, 0.4])
    assert stop_prior({"name": "bragg_siglip"}, probability).tolist() == [0.001, 0.4]
    assert stop_prior({"name": "bragg_uniform", "prior": 0.1}, probability).tolist() == [0.1, 0.1]
    assert stop_prior({"name": "majority"}, probability).tolist() == [0.05, 0.05]
