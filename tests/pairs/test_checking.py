import numpy as np
import pandas as pd

from pipeline.pairs.checking import verdicts

TABLE = pd.DataFrame(
    {"pair_id": list("abcdef"), "added": [1, 1, -1, 1, 2, -1], "removed": [0, 0, 0, -1, 0, 2]}
)
BEFORE = np.array([[0.9, 0.1, 0.0]] * 6)
AFTER = np.array(
    [[0.2, 0.8, 0.0], [0.95, 0.8, 0.0], [0.2, 0.1, 0.0], [0.9, 0.1, 0.0], [0.2, 0.8, 0.0], [0.2, 0.8, 0.0]]
)


def test_what_is_added_must_rise_and_what_is_removed_must_fall():
    found = verdicts(TABLE, BEFORE, AFTER, np.array([True, True, False]))
    assert found["classifier"].tolist() == ["yes", "no", "yes", "no", "", ""]


def test_probabilities_are_told_by_side_and_none_where_nothing_changes_there():
    found = verdicts(TABLE, BEFORE, AFTER, np.array([True, True, True]))
    row = found.iloc[0]
    assert row[["p_added_before", "p_added_after"]].tolist() == [0.1, 0.8]
    assert row[["p_removed_before", "p_removed_after"]].tolist() == [0.9, 0.2]
    assert np.isnan(found["p_added_before"][2]) and np.isnan(found["p_removed_after"][3])
    assert found["classifier"].tolist()[4:] == ["no", "no"]  # known, but it does not move


def test_the_odds_must_change_as_often_as_asked_and_in_the_right_direction():
    table = pd.DataFrame({"pair_id": list("abc"), "added": 0, "removed": -1})
    before, after = np.array([[0.5], [0.5], [0.5]]), np.array([[0.6], [0.8], [0.5]])  # odds 1.5, 4 and 1

    def said(odds):
        return verdicts(table, before, after, np.array([True]), odds)["classifier"].tolist()

    assert said(4.1) == ["no", "no", "no"]
    assert said(2.0) == ["no", "yes", "no"]
    assert said(1.0) == ["yes", "yes", "no"]
