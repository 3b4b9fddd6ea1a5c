"""The cost of ratings and the agreement of raters, on studies small enough to count by hand."""

from itertools import product
from math import isnan

import pandas as pd
import pytest

from pipeline.crowd.agreement import krippendorff_alpha
from pipeline.statistics.ratings import agreement_table, cost_table

FACTORS = ("layer",)
QUESTION = ["layer", "method", "unit", "image_id", "description", "n_images"]
RATING = ["layer", "method", "image_id", "description", "worker", "assignment", "rating", "source", "truth"]


def questions(*rows: tuple[str, str, int, str, str]) -> pd.DataFrame:
    """Return (layer, method, unit, image, text), each unit judged on 100 images."""
    return pd.DataFrame([(*row, 100) for row in rows], columns=QUESTION)


def answers(asked: pd.DataFrame, votes: dict[str, str], source: str = "simulated") -> pd.DataFrame:
    """Return each question's ratings by the workers of `votes`: "y" or "n" by image; the truth is image a."""
    pairs = asked[["layer", "method", "image_id", "description"]].drop_duplicates()
    rows = [
        (*row, worker, f"{source}-{row.image_id}-{row.description}-{worker}", said[ord(row.image_id) - 97])
        for row, (worker, said) in product(pairs.itertuples(index=False), votes.items())
    ]
    table = pd.DataFrame(rows, columns=RATING[:7])
    return table.assign(
        rating=table["rating"] == "y", source=source, truth=(table["image_id"] == "a").astype(float)
    )


ASKED = questions(
    ("l1", "m1", 0, "a", "red"),
    ("l1", "m1", 0, "b", "red"),
    ("l1", "m1", 1, "a", "red"),  # the same question for another unit
    ("l1", "m2", 0, "a", "red"),  # and by another method
    ("l1", "m2", 0, "a", "blue"),
    ("l2", "m1", 0, "b", "red"),  # and in another layer
)
VOTES = {"w1": "yn", "w2": "yn", "w3": "ny"}


def row_of(table: pd.DataFrame, level: str, method: str, layer: str = "all") -> pd.Series:
    (row,) = table[
        (table["level"] == level) & (table["method"] == method) & (table["layer"] == layer)
    ].to_dict("records")
    return pd.Series(row)


def test_a_rating_that_several_units_methods_and_layers_use_is_paid_once() -> None:
    cost = cost_table(ASKED, answers(ASKED, VOTES), FACTORS)
    whole = row_of(cost, "overall", "all")
    assert (whole["n_inputs"], whole["n_ratings"], whole["n_texts"], whole["n_units"]) == (3, 9, 2, 3)
    first, second = (row_of(cost, "overall", method) for method in ("m1", "m2"))
    assert (first["n_inputs"], first["n_units"], second["n_inputs"]) == (2, 3, 2)
    assert row_of(cost, "cell", "m1", "l2")["n_ratings"] == 3


def test_what_is_saved_is_against_asking_as_many_people_about_every_image() -> None:
    whole = row_of(cost_table(ASKED, answers(ASKED, VOTES), FACTORS), "overall", "all")
    assert whole["n_everything"] == 2 * 100 * 3
    assert whole["saved"] == pytest.approx(1 - 9 / 600)


def test_simulated_raters_cost_what_mturk_would_take_for_the_tasks() -> None:
    asked = questions(*(("l1", "m1", 0, chr(97 + n), text) for n in range(2) for text in ("red", "blue")))
    row = row_of(cost_table(asked, answers(asked, VOTES), FACTORS), "overall", "m1")
    assert row["n_assignments"] == 2 * 3  # a text a task, three raters
    assert row["dollars"] == 0.43  # the reward of .06, and 20% of it


def test_people_have_done_so_many_assignments_and_their_pay_is_not_known_here() -> None:
    ratings = answers(ASKED, VOTES, "batch.csv").assign(assignment="one for all")
    row = row_of(cost_table(ASKED, ratings, FACTORS), "overall", "all")
    assert row["n_assignments"] == 1
    assert isnan(row["dollars"])


def test_questions_without_ratings_are_told_and_nothing_is_saved() -> None:
    nobody = cost_table(ASKED, answers(ASKED, VOTES).head(0), FACTORS)
    assert set(nobody["flags"]) == {"no_ratings"}
    assert nobody["saved"].isna().all()
    ratings = answers(ASKED, VOTES)
    part = cost_table(ASKED, ratings[ratings["image_id"] == "a"], FACTORS)
    assert row_of(part, "overall", "m1")["flags"] == "unrated_inputs"


def test_no_point_that_people_score_gives_two_empty_tables() -> None:
    asked = ASKED.head(0)
    assert len(cost_table(asked, answers(ASKED, VOTES).head(0), FACTORS)) == 0
    assert len(agreement_table(answers(ASKED, VOTES).head(0), FACTORS)) == 0


def test_agreement_and_accuracy_counted_by_hand() -> None:
    asked = questions(("l1", "m1", 0, "a", "red"), ("l1", "m1", 0, "b", "red"))
    ratings = answers(asked, VOTES)  # a is red: yes, yes, no; b is not: no, no, yes
    row = row_of(agreement_table(ratings, FACTORS), "overall", "m1")
    assert (row["n_ratings"], row["n_shared"], row["n_workers"], row["yes"]) == (6, 2, 3, 0.5)
    assert row["agreement"] == pytest.approx(1 / 3)
    assert row["alpha"] == krippendorff_alpha(ratings)
    assert (row["worker_agreement_low"], row["worker_agreement_high"]) == (0.0, 0.5)
    assert (row["n_known"], row["accuracy"]) == (6, pytest.approx(2 / 3))
    assert (row["miss"], row["false_alarm"]) == (pytest.approx(1 / 3), pytest.approx(1 / 3))
    assert (row["worker_accuracy_low"], row["worker_accuracy_high"]) == (0.0, 1.0)
    assert row["flags"] == ""


@pytest.mark.parametrize(
    ("votes", "flag"),
    [({"w1": "yn"}, "one_worker"), ({"w1": "yy", "w2": "yy"}, "all_equal")],
)
def test_what_cannot_be_told_of_agreement_is_nan_and_flagged(votes: dict[str, str], flag: str) -> None:
    row = row_of(agreement_table(answers(ASKED, votes), FACTORS), "overall", "all")
    assert row["flags"] == flag
    assert isnan(row["alpha"])
    assert isnan(row["agreement"]) == (flag == "one_worker")


def test_one_rating_an_input_says_nothing_of_agreement() -> None:
    ratings = answers(ASKED, VOTES).drop_duplicates(["image_id", "description"])
    ratings = ratings.assign(worker=ratings["image_id"])
    row = row_of(agreement_table(ratings, FACTORS), "overall", "all")
    assert (row["flags"], row["n_shared"]) == ("one_rating_each", 0)
    assert isnan(row["agreement"])
    assert (row["n_known"], row["accuracy"]) == (3, 1.0)


def test_without_a_truth_nobody_is_called_right_or_wrong() -> None:
    ratings = answers(ASKED, VOTES).assign(truth=float("nan"))
    row = row_of(agreement_table(ratings, FACTORS), "overall", "all")
    assert (row["n_known"], row["flags"]) == (0, "no_truth")
    assert row[["accuracy", "miss", "false_alarm", "worker_accuracy_low"]].isna().all()


def test_under_another_seed_the_raters_are_other_people_asked_the_same() -> None:
    factors = ("layer", "crowd.seed")
    parts = [answers(ASKED, VOTES).assign(**{"crowd.seed": seed}) for seed in ("0", "1")]
    parts[1]["assignment"] += " again"
    table = agreement_table(pd.concat(parts), factors)
    row = row_of(table, "overall", "all")
    assert (row["n_ratings"], row["n_workers"]) == (18, 6)


def test_images_of_two_data_sets_with_one_name_are_two() -> None:
    factors = ("layer", "dataset", "dataset.split_seed")
    asked = pd.concat([ASKED.assign(dataset=name) for name in ("x", "y")])
    asked = pd.concat([asked.assign(**{"dataset.split_seed": seed}) for seed in ("0", "1")])
    ratings = answers(ASKED, VOTES)
    both = pd.concat(
        [ratings.assign(dataset=d, **{"dataset.split_seed": s}) for d in ("x", "y") for s in ("0", "1")]
    )
    whole = row_of(cost_table(asked, both, factors), "overall", "all")
    assert (whole["n_inputs"], whole["n_ratings"]) == (6, 18)
    assert whole["n_assignments"] == 2 * 2 * 3
    assert row_of(agreement_table(both, factors), "overall", "all")["n_ratings"] == 18
