"""What is known of all images, in bins: exact sums, and recalibrated ones nearly so."""

import numpy as np
import pytest
from scipy.special import expit, logit

from pipeline.crowd.arrays import standardised
from pipeline.crowd.population import population_bins

RNG = np.random.default_rng(0)
PROBABILITY = expit(RNG.normal(-4, 3, 20_000))
ACTIVATION = standardised(RNG.exponential(1, 20_000) + 3 * PROBABILITY)


def total(column: str) -> float:
    table = population_bins(ACTIVATION, PROBABILITY)
    return float((table["n_images"] * table[column]).sum())


def test_sums_over_bins_are_sums_over_images():
    assert total("probability") == pytest.approx(PROBABILITY.sum(), rel=1e-12)
    assert total("product") == pytest.approx((ACTIVATION * PROBABILITY).sum(), rel=1e-12)
    assert total("square") == pytest.approx((PROBABILITY**2).sum(), rel=1e-12)
    assert total("activation") == pytest.approx(ACTIVATION.sum(), abs=1e-8)
    assert population_bins(ACTIVATION, PROBABILITY)["n_images"].sum() == 20_000


def test_a_constant_unit_has_no_activation_and_keeps_its_probabilities():
    table = population_bins(standardised(np.ones(20_000)), PROBABILITY)
    assert table["activation"].isna().all()
    assert (table["n_images"] * table["probability"]).sum() == pytest.approx(PROBABILITY.sum(), rel=1e-12)


@pytest.mark.parametrize(("offset", "slope"), [(-1.0, 0.6), (0.5, 1.0), (-1.5, 1.5)])
def test_a_recalibrated_sum_is_right_to_a_thousandth(offset, slope):
    table = population_bins(ACTIVATION, PROBABILITY)
    through = (table["n_images"] * expit(offset + slope * logit(table["probability"]))).sum()
    assert through == pytest.approx(expit(offset + slope * logit(PROBABILITY)).sum(), rel=1e-3)


def test_probabilities_of_0_and_1_have_a_bin():
    table = population_bins(np.zeros(2), np.array([0.0, 1.0]))
    assert table["bin"].tolist() == [0, 255]
    assert table["probability"].tolist() == [0, 1]
