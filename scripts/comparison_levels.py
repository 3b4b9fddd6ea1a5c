"""Measure how often printed intervals and tests hold their level: `python scripts/comparison_levels.py`.

Percentile intervals of a mean F by the number of samples, the sign test over cells of few models, and
comparisons with a reference that the scores chose; all against a truth that is known.
"""

import argparse

import numpy as np
import pandas as pd
from scipy import stats

from pipeline.seeds import generator
from pipeline.statistics import fit
from pipeline.statistics.mixed.table import model_table
from pipeline.statistics.vlm_cells import estimates

SAMPLES = (2, 3, 5, 10, 20, 50, 100)
LEVEL = 0.05


def main() -> int:
    """Print three tables as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replicates", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    n, rng = arguments.replicates, generator(arguments.seed, "interval coverage")
    for rows in (
        [coverage(n, size, rng) for size in SAMPLES],
        [signs(n, by_model, rng) for by_model in (0.0, 0.01)],
        [chosen_reference(n // 10, n_methods, rng) for n_methods in (3, 5, 11)],
    ):
        print(pd.DataFrame(rows).to_markdown(index=False, floatfmt=".3g"), end="\n\n")
    return 0


def coverage(n_replicates: int, n_samples: int, rng: np.random.Generator) -> dict[str, float]:
    """Return how often a 95% percentile interval holds the mean of normal and of F-like values."""
    yes = rng.random((n_samples, n_replicates)) < 0.5
    like_f = np.where(yes, 0.9 * rng.beta(1.2, 1.5, yes.shape), 0.01 * rng.normal(size=yes.shape))
    tables = {"normal": (rng.normal(size=yes.shape), 0.0), "like F": (like_f, 0.45 * 1.2 / 2.7)}
    counts = rng.multinomial(n_samples, np.full(n_samples, 1 / n_samples), 1000)
    counts = np.vstack([np.ones(n_samples), counts]).astype(np.float64)
    found = {}
    for name, (values, truth) in tables.items():
        own = estimates([values], [counts], 0.95)
        found[name] = float(np.mean((own.low <= truth) & (truth <= own.high)))
    return {"samples": n_samples, **found}


def signs(n_replicates: int, by_model: float, rng: np.random.Generator) -> dict[str, float]:
    """Return how often the sign test over 3 models x 3 data sets rejects a mean advantage of 0."""
    shift = by_model * rng.normal(size=(n_replicates, 3, 1)) + 0.003 * rng.normal(size=(n_replicates, 3, 3))
    n_above = (shift > 0).sum(axis=(1, 2))
    p = np.array([stats.binomtest(k, 9).pvalue for k in range(10)])[n_above]
    return {"sd by model": by_model, "sign test rejects": float(np.mean(p < LEVEL))}


def chosen_reference(n_replicates: int, n_methods: int, rng: np.random.Generator) -> dict[str, float]:
    """Return how often any of equal methods is told from the best: as printed, and with Holm over k - 1."""
    n_told = {"over all pairs": 0, "over those with the best": 0}
    sample, method = (axis.ravel() for axis in np.indices((50, n_methods)))
    names = {"sample": sample.astype(str), "method": method.astype(str)}
    for _ in range(n_replicates):
        table = pd.DataFrame(names | {"score": rng.normal(size=len(sample))})
        printed = model_table(table, score="score", method="method", sample="sample", groups={})
        alone = fit(table, "score ~ method + (1|sample)", str(printed["reference"].iloc[0]))
        n_told["over all pairs"] += bool(printed["p_holm"].min() < LEVEL)
        n_told["over those with the best"] += bool(alone.against_reference()["p_adjusted"].min() < LEVEL)
    return {"methods": n_methods} | {name: n / n_replicates for name, n in n_told.items()}


if __name__ == "__main__":
    raise SystemExit(main())
