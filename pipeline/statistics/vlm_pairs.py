"""How much higher the F of one explainer is than that of another, on the samples that both have."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pandas as pd
from scipy import stats

from pipeline.statistics.cells import NEGLIGIBLE
from pipeline.statistics.intervals import Floats
from pipeline.statistics.paired import holm, signed_rank
from pipeline.statistics.vlm_cells import (
    VlmLevel,
    by_sample,
    checked,
    estimates,
    levels,
    vlm_level,
)

COLUMNS = (
    "explainer_a", "explainer_b", "n_samples", "n_tested", "difference", "low", "high", "p_t", "p_t_holm",
    "p_wilcoxon", "p_wilcoxon_holm",
)  # fmt: skip


def pair_table(
    scores: pd.DataFrame,
    factors: Sequence[str],
    *,
    confidence: float = 0.95,
    n_bootstrap: int = 2000,
    seed: int = 0,
) -> pd.DataFrame:
    """Return a row a cell and two explainers, by name: F of a less F of b, sample by sample.

    scores: one row a (factors, explainer, sample_id). A sample that lacks the F of either does not count;
    without a sample of both, difference, interval and p are null. Intervals are percentiles over resamples
    of whole samples, those of `vlm_explainers`; null where a cell has one such sample. p_t: paired t test,
    p_wilcoxon: signed-rank test (Pratt), which weighs ranks; both adjusted by Holm over the pairs of one
    cell. Of two or more cells their means come first ("overall"): difference, interval and t test
    (`mean_tests`) weigh cells alike, signed ranks weigh samples alike. A sample that several cells ask
    counts once in a test: n_tested. Raises AssayError as `checked` does.
    """
    table = checked(scores, factors, ["f"], "scores")
    found = [
        _rows(vlm_level(rows, head, factors, n_bootstrap, seed), confidence).assign(**head)
        for head, rows in levels(table, factors)
    ]
    columns = ["level", *factors, *COLUMNS]
    return pd.concat(found, ignore_index=True)[columns] if found else pd.DataFrame(columns=columns)


def _rows(level: VlmLevel, confidence: float) -> pd.DataFrame:
    pairs = [*combinations(range(len(level.names)), 2)]
    first, second = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    differences = [table[:, first] - table[:, second] for table in level.tables]
    found = estimates(differences, level.counts, confidence)
    tested = by_sample(level, differences)
    p_t = mean_tests(level, differences)
    p_wilcoxon = np.array([signed_rank(each) for each in tested])
    names = np.array(level.names, dtype=object)
    return pd.DataFrame(
        {
            "explainer_a": names[first],
            "explainer_b": names[second],
            "n_samples": found.n,
            "n_tested": [len(each) for each in tested],
            "difference": found.value,
            "low": found.low,
            "high": found.high,
            "p_t": p_t,
            "p_t_holm": holm(p_t),
            "p_wilcoxon": p_wilcoxon,
            "p_wilcoxon_holm": holm(p_wilcoxon),
        }
    )


def mean_tests(level: VlmLevel, differences: Sequence[Floats]) -> Floats:
    """Return the two-sided p of a t test of each column's mean over cells of their means over samples.

    differences: a table (S, C) a cell. Samples are independent, what cells of one pool say of one sample is
    not: the variance is that of the samples' sums of residuals, a pool at a time, with degrees of freedom
    after Welch and Satterthwaite. In one cell it is the paired t test. Null without a value, and where a
    cell has only one. Without any spread: 1 for a mean of 0, else 0, the limit.
    """
    n = np.array([np.sum(~np.isnan(table), axis=0) for table in differences])
    means = np.array([np.nansum(table, axis=0) for table in differences]) / np.maximum(n, 1)
    n_cells = np.maximum(np.sum(n > 0, axis=0), 1)
    residuals = [table - mean for table, mean in zip(differences, means, strict=True)]
    pools = _squares(level, residuals, 1 / (np.maximum(n, 1) * n_cells)).groupby(level=0, sort=True)
    free = np.maximum(pools.count().to_numpy(dtype=np.float64) - 1, 1)
    variances = (1 + 1 / free) * pools.sum().to_numpy(dtype=np.float64)
    mean, variance = means.sum(axis=0) / n_cells, variances.sum(axis=0)
    p = np.where(np.abs(mean) <= NEGLIGIBLE, 1.0, 0.0)
    varied = np.sqrt(variance) > NEGLIGIBLE
    df = variance[varied] ** 2 / (variances**2 / free)[:, varied].sum(axis=0)
    p[varied] = 2 * stats.t.sf(np.abs(mean[varied]) / np.sqrt(variance[varied]), df)
    return np.where(np.any(n > 0, axis=0) & np.all(n != 1, axis=0), p, np.nan)


def _squares(level: VlmLevel, residuals: Sequence[Floats], weights: Floats) -> pd.DataFrame:
    """Return the square of each sample's weighted sum over cells, by pool and sample."""
    weighted = [
        pd.DataFrame(table * weight, index=pd.MultiIndex.from_product([[cell.pool], cell.samples]))
        for cell, table, weight in zip(level.cells, residuals, weights, strict=True)
    ]
    return pd.concat(weighted).groupby(level=[0, 1], sort=True).sum(min_count=1) ** 2
