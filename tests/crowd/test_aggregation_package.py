"""The methods by name, ids of every kind, and crowd-kit's aggregations."""

import subprocess
import sys
from collections import defaultdict

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.crowd.aggregation import METHODS, PAPER_METHODS, aggregate, bragg, mace
from pipeline.crowd.aggregation.crowd_kit import fitted_values
from pipeline.crowd.aggregation.registry import aggregation
from pipeline.crowd.aggregation.votes import count_votes
from pipeline.errors import AssayError
from pipeline.seeds import generator

COLUMNS = ["image_id", "description", "worker", "rating"]
KIT = ("dawid_skene", "glad", "mace")


@pytest.fixture(autouse=True)
def _one_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mace, "N_STARTS", 1)


def table(*rows: tuple) -> pd.DataFrame:
    return pd.DataFrame(list(rows), columns=COLUMNS)


ROWS = st.lists(
    st.tuples(st.integers(-3, 9), st.integers(0, 3), st.integers(0, 30), st.booleans()),
    max_size=60,
    unique_by=lambda row: row[:3],
)
IDS = {
    "integers": lambda t: t,
    "texts": lambda t: t.astype(dict.fromkeys(COLUMNS[:3], "str")),
    "categories": lambda t: t.astype(dict.fromkeys(COLUMNS[:3], "category")),
    "huge integers": lambda t: t.assign(image_id=t["image_id"] * 10**17),
    "objects": lambda t: t.assign(description=[("text", i) for i in t["description"]]),
    "unsigned": lambda t: t.assign(image_id=(t["image_id"] + 3).astype("uint8"), worker=t["worker"] * 2**40),
}


def literal(ratings: pd.DataFrame) -> dict[tuple, tuple[int, int]]:
    counts: dict[tuple, list[int]] = defaultdict(lambda: [0, 0])
    for image, text, _, vote in ratings.itertuples(index=False, name=None):
        counts[image, text][0] += vote
        counts[image, text][1] += 1
    return {pair: (yes, n) for pair, (yes, n) in counts.items()}


@pytest.mark.parametrize("kind", IDS)
@given(rows=ROWS)
@settings(max_examples=30, deadline=None)
def test_counts_equal_a_loop_for_ids_of_every_kind(kind: str, rows: list):
    ratings = IDS[kind](table(*rows).astype({"rating": bool, **dict.fromkeys(COLUMNS[:3], int)}))
    result = aggregate(ratings, "bragg_uniform")
    pairs = list(zip(result["image_id"], result["description"], strict=True))
    found = dict(zip(pairs, zip(result["yes"], result["n_ratings"], strict=True), strict=True))
    assert list(found.items()) == list(literal(ratings).items())
    expected = [float(bragg(yes, n, 0.05)) for yes, n in found.values()]
    assert result["value"].tolist() == expected
    for column in COLUMNS[:2]:
        assert result[column].dtype == ratings[column].dtype


@pytest.mark.parametrize("n_raters", [2, 17, 200])
def test_a_worker_twice_on_a_pair_is_found_however_many_rate_it(n_raters: int):
    ratings = table(*[(i, "red", w, w % 2 == 0) for w in range(n_raters) for i in range(5)])
    assert aggregate(ratings, "avg")["n_ratings"].tolist() == [n_raters] * 5
    twice = pd.concat([ratings, ratings.iloc[[3]]], ignore_index=True)
    with pytest.raises(AssayError, match="worker 0 rated image 3 with 'red' more than once"):
        aggregate(twice, "avg")


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("kind", ["category", "object"])
def test_a_missing_value_is_named(column: str, kind: str):
    ratings = table((0, 0, 0, True), (1, 1, 1, False)).astype(object)
    ratings.loc[1, column] = None
    with pytest.raises(AssayError, match=f"{column} in row 1 of ratings is missing"):
        aggregate(ratings.astype({column: kind}), "avg")


def test_categories_that_do_not_occur_have_no_row():
    ratings = table(("a", "red", "w", True), ("b", "blue", "w", False)).astype(
        {"image_id": "category", "description": "category"}
    )
    result = aggregate(ratings.iloc[:1], "avg")
    assert result[["image_id", "description"]].to_numpy().tolist() == [["a", "red"]]


@pytest.mark.parametrize("rating", [2, -1, "yes", 0.5])
def test_a_rating_that_is_neither_yes_nor_no_is_named(rating: object):
    ratings = table((0, 0, 0, 1), (0, 0, 1, rating))
    with pytest.raises(AssayError, match=f"rating in row 1 of ratings is {rating}"):
        aggregate(ratings, "avg")


@given(rows=ROWS, seed=st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_votes_on_some_pairs_are_those_of_their_ratings_alone(rows: list, seed: int):
    ratings = table(*rows).astype({"rating": bool, **dict.fromkeys(COLUMNS[:3], int)})
    votes = count_votes(ratings)
    kept = np.random.default_rng(seed).random(len(votes.yes)) < 0.5
    part = votes.of_pairs(kept)
    alone = ratings.merge(votes.pairs[kept], on=COLUMNS[:2])
    expected = count_votes(alone)
    pd.testing.assert_frame_equal(part.pairs, expected.pairs, check_dtype=False)
    assert part.yes.tolist() == expected.yes.tolist()
    names = np.sort(ratings["worker"].unique())
    low = names.min(initial=names.max(initial=0))
    said = {
        (int(p), int(w) + low, bool(v)) for p, w, v in zip(part.rated, part.worker, part.vote, strict=True)
    }
    pairs = {pair: i for i, pair in enumerate(part.pairs.itertuples(index=False, name=None))}
    assert said == {(pairs[i, t], w, v) for i, t, w, v in alone.itertuples(index=False, name=None)}


def test_every_method_is_the_module_of_its_name():
    for name in METHODS:
        assert aggregation(name).__module__ == f"pipeline.crowd.aggregation.{name}"
    assert METHODS[:4] == PAPER_METHODS


@pytest.mark.parametrize("method", ["bragg_uniform", "bragg_siglip"])
def test_bragg_refuses_two_error_rates(method: str):
    ratings = table(("a", "red", "w", True))
    prior = pd.DataFrame({"image_id": ["a"], "description": ["red"], "prior": [0.3]})
    with pytest.raises(AssayError, match=f"{method} takes one error rate"):
        aggregate(ratings, method, error_rate=(0.2, 0.1), prior=prior if method == "bragg_siglip" else None)


def test_importing_the_crowd_track_imports_no_crowd_kit():
    code = "import sys, pipeline.crowd, pipeline.crowd.agreement; sys.exit('crowdkit' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def workers_and_truth() -> tuple[pd.DataFrame, np.ndarray]:
    """40 images, rated by eight workers each: six careful ones, and two who always say yes."""
    rng = generator(0, "workers")
    present = rng.random(40) < 0.4
    rows = [
        (i, "red", w, True if w > 5 else bool(present[i] ^ (rng.random() < 0.1)))
        for i in range(40)
        for w in range(8)
    ]
    return table(*rows), present


@pytest.mark.parametrize("method", ["dawid_skene", pytest.param("glad", marks=pytest.mark.long), "mace"])
def test_crowd_kits_methods_find_the_truth_and_touch_no_global_state(method: str):
    ratings, present = workers_and_truth()
    np.random.seed(5)  # noqa: NPY002
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    first, second = aggregate(ratings, method), aggregate(ratings, method)
    pd.testing.assert_frame_equal(first, second, check_exact=True)
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002
    assert ((first["value"] > 0.5) == present).mean() > 0.95
    assert first["value"].between(0, 1).all()
    assert set(first["flags"]) <= {"", "tie"}


@pytest.mark.parametrize("method", KIT)
@pytest.mark.parametrize(
    ("votes", "values"),
    [
        ([], []),
        ([("a", "w", True)], [1]),
        ([("a", "w", False), ("b", "v", False)], [0, 0]),
        ([("a", "w", True), ("a", "v", False)], [0.5]),
    ],
)
def test_crowd_kits_methods_have_a_result_for_next_to_nothing(method: str, votes: list, values: list):
    rows = [(image, "red", worker, vote) for image, worker, vote in votes]
    result = aggregate(table(*rows).astype({"rating": bool}), method)
    assert result["value"].tolist() == pytest.approx(values, abs=1e-4)
    assert result["value"].dtype == np.float64


class Switched:
    """An aggregator whose answer has yes and no in each other's place."""

    def fit(self, tasks: pd.DataFrame) -> "Switched":
        share = tasks.groupby("task")["label"].mean()
        self.probas_ = pd.DataFrame({0: share, 1: 1 - share})
        return self


def test_switched_labels_are_turned_over_and_flagged():
    votes = count_votes(table(*[(i, "red", w, i % 3 == 0) for i in range(9) for w in range(3)]))
    found = fitted_values(Switched(), votes)
    assert found.value.tolist() == [1, 0, 0] * 3
    assert found.flags["labels_switched"].all()


def test_without_crowd_kit_the_fix_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "crowdkit.aggregation", None)
    with pytest.raises(AssayError, match=r"GLAD is crowd-kit's: pip install 'assay\[crowd\]'"):
        aggregate(table(("a", "red", "w", True)), "glad")
