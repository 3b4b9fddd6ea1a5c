"""Error against raters an input, and against where the error rate comes from."""

import pytest

from pipeline.simulation.by_raters import errors_by_raters, errors_by_source


def test_more_raters_err_less_and_hundred_hardly_ever():
    table = errors_by_raters("symmetric", (3, 20, 100), ("majority", "bragg_siglip", "bragg_em"))
    wide = table.pivot_table(index="n_raters", columns="aggregation", values="brier")
    assert (wide.diff().dropna() < 1e-6).all(axis=None)
    assert (wide.loc[100] < 1e-3).all()


def test_the_share_of_yes_keeps_the_raters_bias():
    table = errors_by_raters("symmetric", (100,), ("avg",))
    assert table["brier"].tolist() == pytest.approx([0.23**2 + 0.77 * 0.23 / 100], rel=0.05)


def test_one_rate_for_both_is_what_harms_where_misses_and_false_alarms_differ():
    table = errors_by_source("asymmetric").set_index("source")["brier"]
    assert table["estimated"] < table["assumed"]
    assert table["gold_apart"] < table["assumed"]
    assert table["estimated"] == pytest.approx(table["gold_apart"], rel=0.1)
