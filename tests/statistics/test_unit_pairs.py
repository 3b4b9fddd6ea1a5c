"""Differences of methods for one unit, from coordinated draws."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from pipeline.statistics.unit_pairs import unit_pairs


def tables():
    scores = pd.DataFrame(
        {
            "layer": "l1",
            "method": ["a", "b", "c"],
            "unit": 3,
            "description": ["red", "blue", "red"],
            "estimate": [0.5, 0.2, 0.5],
        }
    )
    shares = {"a": {"i": 0.03, "j": 0.04}, "b": {"i": 0.03, "k": 0.04}, "c": {"i": 0.03, "j": 0.04}}
    influence = pd.DataFrame(
        [
            {"layer": "l1", "method": method, "unit": 3, "image_id": image, "influence": value}
            for method, own in shares.items()
            for image, value in own.items()
        ]
    )
    return scores, influence


def test_what_two_methods_share_cancels():
    table = unit_pairs(*tables(), factors=["layer"]).set_index(["method_a", "method_b"])
    row = table.loc[("a", "b")]
    assert row["difference"] == pytest.approx(0.3)
    assert row["n_shared"] == 1
    half = 0.04 * np.sqrt(2) * stats.t.ppf(0.975, 2 * 2 / (4 / 3 - 2 / 3 * 2 + 2 / 3))
    assert row["high"] - row["difference"] == pytest.approx(half, rel=0.5)
    assert row["low"] < row["difference"] < row["high"]


def test_equal_texts_have_no_interval():
    table = unit_pairs(*tables(), factors=["layer"]).set_index(["method_a", "method_b"])
    row = table.loc[("a", "c")]
    assert row["difference"] == 0
    assert np.isnan([row["low"], row["high"]]).all()
    assert row["flags"] == "equal_texts"


def test_without_coordinated_draws_there_is_no_row():
    scores, _ = tables()
    assert unit_pairs(scores, pd.DataFrame(), factors=["layer"]).empty
