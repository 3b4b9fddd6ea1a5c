"""The coverage study: its cells were named in advance, and a few of them hold in the suite."""

import numpy as np
import pytest

from pipeline.crowd.aggregation.posterior import posterior_of_votes
from pipeline.crowd.presence import N_BINS, PresenceModel, logit_bins
from pipeline.simulation.coverage import (
    CELLS,
    Cell,
    _row,
    coverage_rows,
    coverage_table,
    rated_correlation,
)
from pipeline.simulation.raters import RATERS
from pipeline.simulation.worlds import synthetic_pair


def test_the_cells_are_those_named_in_advance():
    assert len(CELLS) == 18
    assert {cell.frequency for cell in CELLS} == {0.1, 0.01, 0.001}
    assert {cell.missed for cell in CELLS} == {0.0, 0.2}


@pytest.mark.parametrize("missed", [0.0, 0.2])
def test_intervals_cover_where_the_concept_is_on_a_tenth_of_the_images(missed):
    rows = list(coverage_rows(Cell(0.1, "calibrated", missed), 120, seed=7, n_images=20_000))
    assert [row["raters"] for row in rows] == ["perfect", "symmetric", "asymmetric"]
    for row in rows:
        assert row["n_pairs"] == 120
        assert row["coverage"] >= 0.9
        assert row["low"] < row["coverage"] < row["high"] or row["coverage"] == 1


def test_rare_concepts_are_flagged_whatever_the_raters():
    table = coverage_table(20, seed=3, cells=[Cell(0.001, "over", 0.2)], n_images=20_000)
    assert (table["flagged"] == 1).all()


def test_one_seed_gives_one_table():
    one, two = (coverage_table(20, seed=5, cells=CELLS[:1], n_images=5000) for _ in range(2))
    assert one.equals(two)
    assert np.isfinite(one["rce"]).all()


def test_what_every_image_rated_would_give_is_the_mean_over_images_and_votes():
    rng = np.random.default_rng(0)
    pair = synthetic_pair(rng, 0.1, "over", n_images=20_000)
    model = PresenceModel(-0.3, 0.8, 0.01, 0.2, 0.1)
    by_truth = np.zeros((3, 2, N_BINS))
    for present in (0, 1):
        for code in range(N_BINS):
            inside = (pair.present == present) & (logit_bins(pair.probability) == code)
            means = (pair.probability[inside], pair.activation[inside]) if inside.any() else ([0.5], [0.0])
            by_truth[:, present, code] = inside.sum(), *(np.mean(part) for part in means)
    found = rated_correlation(model, by_truth, 3, RATERS["asymmetric"])
    prior = model.prior(pair.probability)
    value = np.array([posterior_of_votes(k, 3, prior, model.miss, model.false_alarm) for k in range(4)])
    yes = np.where(pair.present, 0.83, 0.02)
    chance = np.array([(1, 3, 3, 1)[k] * yes**k * (1 - yes) ** (3 - k) for k in range(4)])
    mean, square = ((chance * part).sum(axis=0) for part in (value, value**2))
    exact = np.mean(pair.activation * mean) / np.sqrt(square.mean() - mean.mean() ** 2)
    assert float(found) == pytest.approx(exact, rel=1e-4)


def test_a_pair_without_an_interval_is_not_covered():
    found = np.array(
        [[0.2] * 4, [0.2] * 4, [0.1, np.nan, 0.1, 0.1], [0.3, np.nan, 0.3, 0.3], *[[0.0] * 4] * 5]
    )
    row = _row(CELLS[0], "perfect", found)
    assert row["coverage"] == 0.75
    assert row["no_interval"] == 1
    assert np.isnan(row["coverage_flagged"])
