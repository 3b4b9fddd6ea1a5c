"""Does F follow the exact interaction of image and text, and does it do so better than D alone?"""

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
import pandas as pd

from pipeline.statistics.cells import Row
from pipeline.statistics.vlm_cells import checked, parts, vlm_cells
from pipeline.synergy.agreement import agreements

COLUMNS = (
    "level", "left", "right", "measure", "value", "low", "high", "n", "n_undefined", "n_samples",
    "n_explainers",
)  # fmt: skip


def agreement_table(
    scores: pd.DataFrame,
    sii: pd.DataFrame,
    factors: Sequence[str],
    *,
    confidence: float = 0.95,
    n_bootstrap: int = 2000,
    seed: int = 0,
) -> pd.DataFrame:
    """Return how F, D and SII agree in each cell that has SII: the rows of `pipeline.synergy.agreements`.

    n: correlations averaged: explainers (across), samples (within), 1 (pooled). n_samples and n_explainers:
    those with both F and SII in the cell; all others are left out. A cell without any has no row, and one
    without SII neither. Raises AssayError as `explainer_table`.
    """
    known = checked(scores, factors, ["f", "dividend"], "scores")
    exact = checked(sii, factors, ["sii"], "sii")
    both = known.merge(exact, on=[*factors, "explainer", "sample_id"]).dropna()
    found: list[Row] = []
    for key, rows in parts(both, factors):
        ((f,), (values,)) = (vlm_cells(rows, factors, measure) for measure in ("f", "sii"))
        dividend = rows.groupby("sample_id", sort=True)["dividend"].first().to_numpy(dtype=np.float64)
        size: Row = {"n_samples": len(f.samples), "n_explainers": len(f.explainers)}
        found += [
            dict(zip(factors, key, strict=True)) | asdict(row) | size
            for row in agreements(
                f.values,
                dividend,
                values.values,
                confidence=confidence,
                n_bootstrap=n_bootstrap,
                seed=seed,
            )
        ]
    return pd.DataFrame(found, columns=[*factors, *COLUMNS])
