import numpy as np
import pytest
import torch

from pipeline.saes.normalisation import NAMES, normalise

ROWS = torch.from_numpy(np.random.default_rng(0).normal(3, 5, size=(20, 12)).astype(np.float32))


def test_standardised_rows_have_mean_0_and_deviation_1() -> None:
    values = normalise(ROWS, "standardise").values.double()
    assert values.mean(dim=1).abs().max() < 1e-6
    assert values.std(dim=1) == pytest.approx(np.ones(20), abs=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_restoring_undoes_the_normalisation(name: str) -> None:
    inputs = normalise(ROWS, name)
    assert inputs.restore(inputs.values).numpy() == pytest.approx(ROWS.numpy(), abs=2e-4)


def test_a_constant_row_and_a_row_of_one_feature_become_zero_and_come_back() -> None:
    for rows in (torch.full((1, 5), 7.0), torch.tensor([[7.0]])):
        inputs = normalise(rows, "standardise")
        assert (inputs.values == 0).all()
        assert torch.equal(inputs.restore(inputs.values), rows)


def test_a_large_offset_loses_no_digits() -> None:
    small = normalise(ROWS.double(), "standardise").values
    far = normalise(ROWS.double() + 1e6, "standardise").values
    assert far.numpy() == pytest.approx(small.numpy(), abs=1e-6)


def test_constant_norm_brings_rows_to_length_root_d_and_leaves_zeros() -> None:
    values = normalise(torch.cat([ROWS, torch.zeros(1, 12)]), "constant_norm").values
    assert values[:-1].norm(dim=1) == pytest.approx(np.full(20, 12**0.5), rel=1e-6)
    assert (values[-1] == 0).all()
