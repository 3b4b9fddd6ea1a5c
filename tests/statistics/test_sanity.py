"""The sanity table: known differences, and what it says where it cannot know."""

import numpy as np
import pandas as pd
import pytest

from pipeline.seeds import generator
from pipeline.statistics.sanity import ALL, Measured, resampled_means, sanity_table

KINDS = ["topk", "jumprelu", "frozen", "random"]


def saes(kinds: list[str] = KINDS) -> pd.DataFrame:
    return pd.DataFrame({"variant": kinds, "dictionary_size": 8, "density": 2.0, "layer": "a"})


def series(level: float, n: int = 40, seed: int = 0) -> pd.Series:
    noise = generator(seed, "test", "noise").normal(0, 0.05, n)
    return pd.Series(level + noise, index=[f"item {i}" for i in range(n)])


def one(metric: Measured, table: pd.DataFrame | None = None, variant: str = ALL) -> pd.Series:
    found = sanity_table(saes() if table is None else table, [metric], ["layer"], n_bootstrap=400)
    return found[found["variant"] == variant].iloc[0]


def test_a_metric_that_trained_saes_raise_passes_with_the_paired_difference() -> None:
    items = [series(0.8), series(0.6), series(0.5), series(0.1)]
    row = one(Measured("m", "attributes", items))
    assert row["over_frozen"] == pytest.approx(0.2)
    assert row["over_random"] == pytest.approx(0.6)
    # The noise of an item is the same in every SAE, so paired differences do not vary at all.
    assert row["over_frozen_low"] == pytest.approx(0.2) == row["over_frozen_high"]
    assert (row["verdict"], row["n_saes"], row["n_items"]) == ("pass", 2, 40)


def test_a_metric_that_random_codes_raise_as_much_fails() -> None:
    items = [series(0.8, seed=1), series(0.8, seed=2), series(0.5, seed=3), series(0.85, seed=4)]
    row = one(Measured("m", "attributes", items))
    assert row["over_frozen_low"] > 0 > row["over_random_low"]
    assert row["verdict"] == "fail"


def test_a_missing_baseline_is_unknown_and_no_pass() -> None:
    row = one(Measured("m", "attributes", [series(0.8), series(0.1)]), saes(["topk", "frozen"]), "topk")
    assert np.isnan(row["over_random"]) and row["verdict"] == "unknown"


def test_one_item_alone_has_no_interval() -> None:
    single = [pd.Series([level], index=["all"]) for level in (0.8, 0.6, 0.5, 0.1)]
    row = one(Measured("m", "SAEs", single), variant="topk")
    assert np.isnan(row["over_frozen_low"]) and row["verdict"] == "unknown"
    together = one(Measured("m", "SAEs", single))
    # Two SAEs both above it happen by chance alone in one of four; their interval is that of two values.
    assert together["n_items"] == 2 and together["over_frozen_low"] > 0 and together["verdict"] == "unknown"


def test_latents_are_unpaired_and_undefined_ones_left_out() -> None:
    items = [
        pd.concat([series(level, n), pd.Series([np.nan])])
        for level, n in ((0.8, 30), (0.8, 50), (0.3, 9), (0.2, 7))
    ]
    row = one(Measured("m", "latents", items, shared=False))
    expected = np.mean([items[i].mean() - items[2].mean() for i in (0, 1)])
    assert row["over_frozen"] == pytest.approx(expected)
    assert row["over_frozen_low"] < expected < row["over_frozen_high"]


def test_a_metric_that_was_not_computed_has_a_row_that_says_so() -> None:
    row = one(Measured("m", "attributes", [None] * 4))
    assert row["n_saes"] == 0 and np.isnan(row["trained"]) and row["verdict"] == "unknown"


def test_the_interval_of_a_mean_has_the_width_that_theory_gives() -> None:
    values = generator(3, "test", "width").normal(0, 1, 400)
    means = resampled_means(values, 4000, generator(4, "test"))
    assert means.std() == pytest.approx(values.std() / np.sqrt(400), rel=0.05)
