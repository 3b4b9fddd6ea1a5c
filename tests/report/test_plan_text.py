"""The budget planner's table, and the plan that it names."""

import numpy as np
import pandas as pd

from pipeline.report.plan_text import plan_text
from pipeline.study.settings import StudySettings


def pilot() -> tuple[pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(0)
    present = rng.random(120) < 0.3
    images = [f"i{k}" for k in range(120)]
    a = rng.exponential(1, 120) + 2 * present
    draws = pd.DataFrame(
        {
            "part": "p",
            "method": "m",
            "unit": 0,
            "description": "red",
            "image_id": images,
            "activation": (a - a.mean()) / a.std(),
            "probability": np.clip(rng.normal(0.2 + 0.5 * present, 0.15), 0.01, 0.99),
            "weight": 1.0,
        }
    )
    votes = [
        {
            "image_id": images,
            "description": "red",
            "worker": f"w{k}",
            "rating": present ^ (rng.random(120) < 0.1),
        }
        for k in range(3)
    ]
    return draws, pd.concat([pd.DataFrame(vote) for vote in votes], ignore_index=True)


def test_the_cheapest_plan_that_is_narrow_enough_is_named():
    text = plan_text(*pilot(), StudySettings(), 0.4)
    assert "cheapest for an interval of 0.4: $" in text
    assert "sampler=active aggregation=bragg_em estimator=combined sampler.n_inputs=" in text


def test_without_a_width_nothing_is_named_and_an_unreachable_one_says_so():
    draws, ratings = pilot()
    assert "--width W names the cheapest plan" in plan_text(draws, ratings, StudySettings(), None)
    assert "no plan here reaches an interval of 0.001; the narrowest is" in plan_text(
        draws, ratings, StudySettings(), 0.001
    )
