"""Activations that the tests of SAEs share."""

import pytest

from tests.saes.examples import Rows, sparse_rows


@pytest.fixture(scope="session")
def train() -> Rows:
    return sparse_rows(1200, seed=1)


@pytest.fixture(scope="session")
def validation() -> Rows:
    return sparse_rows(400, seed=2)
