"""How much higher the F of one explainer is than that of another, on the samples that both have."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pandas as pd

from pipeline.statistics.paired import holm, paired_t, signed_rank
from pipeline.statistics.vlm_cells import (
    VlmLevel,
    by_sample,
    checked,
    estimates,
    levels,
    vlm_level,
)

COLUMNS = (
    "explainer_a", "explainer_b", "n_samples", "difference", "low", "high", "p_t", "p_t_holm", "p_wilcoxon",
    "p_wilcoxon_holm",
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
    which is about the mean as the interval is; p_wilcoxon: signed-rank test (Pratt), which weighs ranks;
    both adjusted by Holm over the pairs of one cell. Of two or more cells their means come first
    ("overall"); a sample that several cells ask counts once in a test. Raises AssayError as `checked` does.
    """
    table = checked(scores, factors, ["f"], "scores")
    found = [
        _rows(vlm_level(rows, head, factors, "f", n_bootstrap, seed), confidence).assign(**head)
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
    p_t = np.array([paired_t(each)[1] for each in tested])
    p_wilcoxon = np.array([signed_rank(each) for each in tested])
    names = np.array(level.names, dtype=object)
    return pd.DataFrame(
        {
            "explainer_a": names[first],
            "explainer_b": names[second],
            "n_samples": found.n,
            "difference": found.value,
            "low": found.low,
            "high": found.high,
            "p_t": p_t,
            "p_t_holm": holm(p_t),
            "p_wilcoxon": p_wilcoxon,
            "p_wilcoxon_holm": holm(p_wilcoxon),
        }
    )
