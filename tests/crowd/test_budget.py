"""What is expected of other budgets falls with their size, and is right where it can be known."""

import numpy as np
import pandas as pd

from pipeline.crowd.budget import expected_errors
from pipeline.seeds import generator


def draws(n: int, probability: np.ndarray | None = None, pairs: int = 6) -> pd.DataFrame:
    rng = generator(0, "draws")
    tables = []
    for unit in range(pairs):
        activation = rng.standard_normal(n)
        chance = 1 / (1 + np.exp(-3 * activation)) if probability is None else probability
        tables.append(
            pd.DataFrame(
                {
                    "part": "p", "method": "m", "unit": unit, "description": f"text{unit}",
                    "image_id": [f"image{i}" for i in range(n)], "activation": activation,
                    "probability": chance, "weight": 1.0,
                }
            )
        )  # fmt: skip
    return pd.concat(tables, ignore_index=True)


def errors(table: pd.DataFrame, n_draws: list[int], n_raters: list[int], error_rate: float) -> np.ndarray:
    rows = expected_errors(table, n_draws, n_raters, error_rate=error_rate, prior=None, seed=0)
    return np.array([row.error for row in rows]).reshape(len(n_draws), len(n_raters))


def test_more_draws_and_more_raters_make_smaller_errors() -> None:
    table = errors(draws(300), [30, 300], [1, 9], 0.23)
    assert table[0, 1] > 2 * table[1, 1]
    assert (table[:, 0] > table[:, 1]).all()


def test_with_perfect_raters_the_error_is_that_of_the_bootstrap() -> None:
    """For a balanced concept and an activation standardised beforehand, sd is sqrt((1 - rho^2) / n)."""
    table = draws(400, pairs=10)
    (row,) = expected_errors(table, [400], [1], error_rate=1e-9, prior=None, seed=1)
    present = generator(2, "truth").random(len(table)) < table["probability"]
    rho = np.corrcoef(table["activation"], present)[0, 1]
    expected = np.sqrt((1 - rho**2) / 400) * np.sqrt(2 / np.pi)
    assert 0.8 * expected < row.error < 1.2 * expected


def test_a_constant_unit_gives_no_number() -> None:
    table = draws(20).assign(activation=np.nan)
    (row,) = expected_errors(table, [20], [3], error_rate=0.2, prior=0.05, seed=0)
    assert np.isnan(row.error)
    assert row.n_pairs == 0


def test_a_seed_gives_the_same_numbers_whatever_other_budgets_stand_beside() -> None:
    table = draws(50)
    alone = errors(table, [50], [3], 0.2)[0, 0]
    assert errors(table, [10, 50], [1, 3], 0.2)[1, 1] == alone
