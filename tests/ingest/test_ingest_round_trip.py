"""A simulated crowd, written as people bring it, gives what the direct simulation gives."""

import pandas as pd
import pytest
from ingest_formats import Answer, make_study, mturk_csv, table_bytes

from pipeline.crowd.aggregation import PAPER_METHODS, aggregate
from pipeline.crowd.simulated import simulate

STUDY = make_study(["red", 'a "cat", <b>'], width=15, n_images=40)
PAIRS = pd.DataFrame(
    [(i.image_id, i.description) for i in STUDY.inputs.values()], columns=["image_id", "description"]
)
DIRECT = simulate(
    PAIRS.assign(truth=[k % 3 == 0 for k in range(len(PAIRS))]),
    n_raters=3,
    miss=0.23,
    false_alarm=0.23,
    seed=5,
)
CONTENT = ["worker", "image_id", "description", "rating"]


def simulated_batch() -> bytes:
    said = {tuple(row[:3]): row[3] for row in DIRECT[CONTENT].itertuples(index=False)}
    answers = []
    for task, slots in STUDY.tasks.items():
        inputs = [STUDY.inputs.get(key) for key in slots]
        for worker in ("rater1", "rater2", "rater3"):
            votes = [said[worker, i.image_id, i.description] if i else None for i in inputs]
            answers.append(Answer(worker, task, tuple(votes)))
    return mturk_csv(answers, study=STUDY)


@pytest.mark.parametrize(
    "data", [simulated_batch(), table_bytes(DIRECT[CONTENT].astype(str).to_dict("records"))]
)
def test_ratings_and_what_follows_equal_the_direct_simulation(ingested, data):
    ratings = ingested(data, study=STUDY).ratings
    order = ["description", "image_id", "worker"]
    direct = DIRECT[CONTENT].sort_values(order, ignore_index=True)
    pd.testing.assert_frame_equal(ratings[CONTENT], direct)
    prior = PAIRS.assign(prior=0.3)
    for method in PAPER_METHODS:
        given = prior if method == "bragg_siglip" else None
        pd.testing.assert_frame_equal(
            aggregate(ratings, method, prior=given), aggregate(direct, method, prior=given)
        )
