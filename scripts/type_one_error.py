"""Measure how often methods that are equal are found to differ: `python scripts/type_one_error.py`.

Tables of 3 models and 3 datasets without any difference of methods, whose advantage varies by model and by
dataset with the given SD. Samples are few, and the variances of a single score (residual, sample:model) are
scaled so that a difference has the standard error of 1,500 samples: the same test, at a 25th of the rows.
"""

import argparse
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product

import numpy as np
import pandas as pd

from pipeline.seeds import generator
from pipeline.statistics import fit
from pipeline.statistics.mixed.defaults import formula_for

METHODS = (2, 5, 9)
SDS = (0.0, 0.002, 0.005, 0.01)
VARIANTS = ("default", "paper")
MODELS, DATASETS, FULL = 3, 3, 500
LEVEL = 0.05
DEVIATIONS = {"sample": 0.063, "model": 0.016, "dataset": 0.0175, "sample:model": 0.02, "residual": 0.08}


def main() -> int:
    """Print the table as Markdown: the share of rejections at 5%, its error, and the mean df."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replicates", type=int, default=400, help="simulated tables a cell")
    parser.add_argument("--samples", type=int, default=20, help="samples a dataset")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    one = partial(cell, arguments.replicates, arguments.samples, arguments.seed)
    with ProcessPoolExecutor(arguments.processes) as pool:
        rows = list(pool.map(one, *zip(*product(METHODS, SDS), strict=True)))
    print(pd.DataFrame(rows).to_markdown(index=False, floatfmt=".3g"))
    return 0


def cell(n_replicates: int, n_samples: int, seed: int, n_methods: int, sd: float) -> dict[str, float]:
    """Return a row: for each variant, the share of differences from the reference with p < .05."""
    row: dict[str, float] = {"methods": n_methods, "sd": sd}
    tables = [null_table(n_methods, sd, n_samples, seed, number) for number in range(n_replicates)]
    for variant in VARIANTS:
        formula = formula_for(tables[0], "score", "method", "sample", ["model", "dataset"], variant).formula
        found = [fit(table, formula, "m0").against_reference("none") for table in tables]
        shares = np.array([float(np.mean(one["p"] < LEVEL)) for one in found])
        row[variant] = float(shares.mean())
        row[f"{variant} error"] = float(shares.std() / np.sqrt(n_replicates))
        row[f"{variant} df"] = float(np.median([one["df"].median() for one in found]))
    return row


def null_table(n_methods: int, sd: float, n_samples: int, seed: int, number: int) -> pd.DataFrame:
    """Return scores of methods that do not differ on average; a sample is in one dataset and seen by all."""
    rng = generator(seed, "type one error", n_methods, sd, n_samples, number)
    sample, model, method = (axis.ravel() for axis in np.indices((DATASETS * n_samples, MODELS, n_methods)))
    dataset, scale = sample % DATASETS, np.sqrt(n_samples / FULL)
    drawn = {name: deviation * rng.normal(size=len(sample)) for name, deviation in DEVIATIONS.items()}
    score = (
        drawn["sample"][sample]
        + drawn["model"][model]
        + drawn["dataset"][dataset]
        + scale * drawn["sample:model"][sample * MODELS + model]
        + sd * rng.normal(size=(MODELS, n_methods))[model, method]
        + sd * rng.normal(size=(DATASETS, n_methods))[dataset, method]
        + scale * drawn["residual"]
    )
    factors = {"method": method, "model": model, "dataset": dataset, "sample": sample}
    names = {
        name: pd.Series(codes).map(lambda code, name=name: f"{name[0]}{code}")
        for name, codes in factors.items()
    }
    return pd.DataFrame(names | {"score": score})


if __name__ == "__main__":
    raise SystemExit(main())
