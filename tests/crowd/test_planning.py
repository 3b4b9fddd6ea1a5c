"""The budget planner: more money, less error; and the cheapest plan that is narrow enough."""

import numpy as np
import pandas as pd
import pytest

from pipeline.crowd.planning import DESIGNS, cheapest, plan_budget
from pipeline.errors import AssayError


def pilot(n: int = 150) -> tuple[pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(0)
    parts, votes = [], []
    for unit in range(4):
        present = rng.random(n) < 0.3
        s = np.clip(rng.normal(0.2 + 0.5 * present, 0.15), 0.01, 0.99)
        a = rng.exponential(1, n) + 2 * present
        images = [f"u{unit}i{k}" for k in range(n)]
        key = {"part": "p", "method": "m", "unit": unit, "description": f"text {unit}"}
        values = {"image_id": images, "activation": (a - a.mean()) / a.std(), "probability": s, "weight": 1.0}
        parts.append(pd.DataFrame({**key, **values}))
        for rater in range(3):
            yes = np.where(present, rng.random(n) < 0.8, rng.random(n) < 0.1)
            one = {"image_id": images, "description": f"text {unit}", "worker": f"w{rater}", "rating": yes}
            votes.append(pd.DataFrame(one))
    return pd.concat(parts, ignore_index=True), pd.concat(votes, ignore_index=True)


def test_more_images_make_narrower_intervals_and_smaller_errors():
    plan = plan_budget(*pilot(), n_inputs=(20, 200), n_raters=(3,), designs=DESIGNS[-1:])
    few, many = plan.to_dict("records")
    assert many["width"] < few["width"]
    assert many["error"] < few["error"]
    assert plan["n_pairs"].tolist() == [4, 4]


def test_the_cheapest_plan_is_narrow_enough_and_about_the_truth():
    plan = pd.DataFrame(
        {
            "estimator": ["importance", "combined", "combined", "combined"],
            "width": [0.05, 0.3, 0.15, 0.1],
            "cost": [1.0, 2.0, 3.0, 4.0],
        }
    )
    assert cheapest(plan, 0.2)["cost"].tolist() == [3.0]
    assert cheapest(plan, 0.01).empty


def test_a_pilot_without_ratings_is_refused():
    draws, ratings = pilot(20)
    with pytest.raises(AssayError, match="no draw of the pilot with a text of one concept has a rating"):
        plan_budget(draws, ratings.head(0), n_inputs=(10,), n_raters=(1,))
