"""Simulated scores that the tests of mixed models share: each sample in one dataset, seen by all models."""

import numpy as np
import pandas as pd

from pipeline.seeds import generator

SDS = {"sample": 0.06, "vlm": 0.02, "dataset": 0.02, "pair": 0.03, "advantage": 0.01, "residual": 0.08}


def scores(
    n_samples: int = 12,
    n_explainers: int = 4,
    n_vlms: int = 3,
    n_datasets: int = 2,
    share: float = 1.0,
    seed: int = 0,
) -> pd.DataFrame:
    """Return a table of f by explainer, vlm, dataset and sample, of which a share of the rows is there."""
    rng = generator(seed, "mixed tables")
    sample, vlm, explainer = (axis.ravel() for axis in np.indices((n_samples, n_vlms, n_explainers)))
    dataset = sample % n_datasets
    effect = {name: sd * rng.normal(size=len(sample)) for name, sd in SDS.items()}
    f = 0.1 + 0.02 * explainer + effect["sample"][sample] + effect["vlm"][vlm] + effect["dataset"][dataset]
    f = f + effect["pair"][sample * n_vlms + vlm] + effect["advantage"][vlm * n_explainers + explainer]
    table = pd.DataFrame(
        {
            "explainer": [f"e{i}" for i in explainer],
            "vlm": [f"v{i}" for i in vlm],
            "dataset": [f"d{i}" for i in dataset],
            "sample": [f"s{i}" for i in sample],
            "f": f + effect["residual"],
        }
    )
    return table[rng.random(len(table)) < share].reset_index(drop=True)


def test_the_shared_table_is_balanced_and_its_samples_are_nested() -> None:
    table = scores(n_samples=6, n_explainers=3, n_vlms=2)
    assert (table.groupby(["explainer", "vlm", "sample"]).size() == 1).all()
    assert len(table) == 36
    assert len(table[["sample", "dataset"]].drop_duplicates()) == 6
