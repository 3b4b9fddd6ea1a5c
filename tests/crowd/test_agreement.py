from itertools import combinations, permutations
from math import isnan, nan

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.crowd.agreement import krippendorff_alpha, pairwise_agreement, worker_agreement

VOTES = st.dictionaries(
    st.tuples(st.sampled_from("abcd"), st.sampled_from(["red", "blue"])),
    st.dictionaries(st.sampled_from(["w1", "w2", "w3", "w4"]), st.booleans(), min_size=1),
    max_size=8,
)


def table(votes: dict) -> pd.DataFrame:
    rows = [
        (image, text, worker, vote) for (image, text), said in votes.items() for worker, vote in said.items()
    ]
    frame = pd.DataFrame(rows, columns=["image_id", "description", "worker", "rating"])
    return frame.astype({"image_id": "str", "description": "str", "worker": "str", "rating": "bool"})


def columns(*raters: str) -> pd.DataFrame:
    """One text a rater: 0, 1 or . for each input."""
    return table(
        {
            (f"img{j}", "red"): {f"w{k}": vote == "1" for k, vote in enumerate(said) if vote != "."}
            for j, said in enumerate(zip(*raters, strict=True))
        }
    )


def literal_agreement(votes: dict) -> float:
    pairs = [a == b for said in votes.values() for a, b in combinations(said.values(), 2)]
    return sum(pairs) / len(pairs) if pairs else nan


def literal_alpha(votes: dict) -> float:
    """The coincidence matrix as it is defined: each ordered pair of an input weighs 1 / (m - 1)."""
    matrix = dict.fromkeys(((0, 0), (0, 1), (1, 0), (1, 1)), 0.0)
    for said in votes.values():
        for a, b in permutations(said.values(), 2):
            matrix[int(a), int(b)] += 1 / (len(said) - 1)
    n0, n1 = matrix[0, 0] + matrix[0, 1], matrix[1, 0] + matrix[1, 1]
    if not n0 or not n1:
        return nan
    return 1 - (n0 + n1 - 1) * matrix[0, 1] / (n0 * n1)


def test_alpha_of_krippendorffs_own_example_of_binary_data():
    """Two observers, ten units: alpha is 0.095 ("Computing Krippendorff's Alpha-Reliability", part A)."""
    ratings = columns("0100000010", "1110010000")
    assert krippendorff_alpha(ratings) == pytest.approx(1 - 19 * 4 / (14 * 6))
    assert round(krippendorff_alpha(ratings), 3) == 0.095
    assert pairwise_agreement(ratings) == pytest.approx(0.6)


def test_ratings_that_are_not_there_do_not_count():
    with_gaps, without = columns("01.1", "0111", "...1"), columns("0.1", "011", "..1")
    assert pairwise_agreement(with_gaps) == 1.0
    assert krippendorff_alpha(with_gaps) == 1.0 == krippendorff_alpha(without)


@given(VOTES)
def test_both_equal_their_literal_definitions(votes):
    ratings = table(votes)
    assert pairwise_agreement(ratings) == pytest.approx(literal_agreement(votes), nan_ok=True)
    assert krippendorff_alpha(ratings) == pytest.approx(literal_alpha(votes), nan_ok=True)


@given(VOTES, st.randoms())
def test_neither_the_order_of_rows_nor_the_names_of_workers_matter(votes, random):
    ratings = table(votes)
    order = list(range(len(ratings)))
    random.shuffle(order)
    other = ratings.iloc[order].assign(worker=lambda t: "x" + t["worker"]).reset_index(drop=True)
    assert pairwise_agreement(other) == pytest.approx(pairwise_agreement(ratings), nan_ok=True)
    assert krippendorff_alpha(other) == pytest.approx(krippendorff_alpha(ratings), nan_ok=True)


@given(VOTES)
def test_each_worker_agrees_with_the_others_as_often_as_its_pairs_are_equal(votes):
    pairs: dict[str, list[bool]] = {}
    for said in votes.values():
        for (a, vote), (_, other) in permutations(said.items(), 2):
            pairs.setdefault(a, []).append(vote == other)
    result = worker_agreement(table(votes))
    assert set(result) == {worker for said in votes.values() for worker in said}
    for worker, share in result.items():
        equal = pairs.get(worker)
        assert isnan(share) if equal is None else share == pytest.approx(sum(equal) / len(equal))


@pytest.mark.parametrize("raters", [("",), ("0101",), ("01..", "..01")])
def test_without_two_ratings_of_an_input_nothing_is_defined(raters):
    assert isnan(pairwise_agreement(columns(*raters)))
    assert isnan(krippendorff_alpha(columns(*raters)))


def test_alpha_is_undefined_where_all_say_the_same():
    assert isnan(krippendorff_alpha(columns("1111", "1111")))
    assert pairwise_agreement(columns("1111", "1111")) == 1.0


def test_ratings_may_be_numbers():
    ratings = columns("0100", "0110")
    assert krippendorff_alpha(ratings.assign(rating=ratings["rating"].astype(int))) == krippendorff_alpha(
        ratings
    )


@given(VOTES, st.sampled_from(["str", "category"]))
def test_ids_may_be_categories(votes, kind):
    ratings = table(votes)
    ids = dict.fromkeys(["image_id", "description", "worker"], kind)
    assert worker_agreement(ratings.astype(ids)) == pytest.approx(worker_agreement(ratings), nan_ok=True)
    assert pairwise_agreement(ratings.astype(ids)) == pytest.approx(literal_agreement(votes), nan_ok=True)


def test_workers_come_by_first_appearance():
    assert list(worker_agreement(columns("01", "00", "11").iloc[::-1])) == ["w2", "w1", "w0"]
