"""Which untrained SAEs stand beside a trained one."""

import numpy as np
import pandas as pd
import pytest

from pipeline.statistics.sae_baselines import baselines, with_dmatch


def table(*rows: tuple[str, int, float, float]) -> pd.DataFrame:
    names = ["variant", "dictionary_size", "density", "match_score"]
    return pd.DataFrame(rows, columns=names).assign(layer="a")


def test_dmatch_is_the_score_minus_the_mean_of_the_frozen_seeds_of_the_same_size() -> None:
    saes = table(("topk", 8, 2, 0.9), ("frozen", 8, 2, 0.5), ("frozen", 8, 2, 0.7), ("frozen", 16, 2, 0.1))
    found = with_dmatch(saes, ["layer"])
    assert found["dmatch_score"][0] == pytest.approx(0.3)
    assert found["frozen_spread"][0] == pytest.approx(np.std([0.5, 0.7], ddof=1))
    assert found["n_frozen"].tolist() == [2, 0, 0, 0]


def test_without_a_frozen_sae_there_is_no_dmatch() -> None:
    found = with_dmatch(table(("topk", 8, 2, 0.9), ("frozen", 16, 2, 0.5)), ["layer"])
    assert np.isnan(found["dmatch_score"][0]) and np.isnan(found["frozen_spread"][0])


def test_the_baseline_of_the_nearest_density_is_taken_the_lower_one_on_ties() -> None:
    saes = table(
        ("jumprelu", 8, 3.0, 0.9), ("frozen", 8, 2, 0.5), ("frozen", 8, 4, 0.7), ("frozen", 8, 32, 0.1)
    )
    assert baselines(saes, "frozen", ["layer"])[0].tolist() == [1]
    assert baselines(saes.assign(density=[3.5, 2, 4, 32]), "frozen", ["layer"])[0].tolist() == [2]


def test_another_layer_has_no_say() -> None:
    saes = table(("topk", 8, 2, 0.9), ("frozen", 8, 2, 0.5))
    saes["layer"] = ["a", "b"]
    assert with_dmatch(saes, ["layer"])["n_frozen"].tolist() == [0, 0]
