"""Does F follow the exact interaction of image and text, and does it do so better than D alone?"""

from collections.abc import Sequence
from dataclasses import asdict, replace

import numpy as np
import pandas as pd

from pipeline.seeds import generator
from pipeline.statistics.cells import NEGLIGIBLE, Row
from pipeline.statistics.intervals import Floats
from pipeline.statistics.vlm_cells import VlmCell, checked, parts, resamples, vlm_cells
from pipeline.synergy.agreement import EXCESS, Agreement, agreements

EXACT = ("sii", "sii_top")
"""The sum over all cross-modal pairs of groups, near D whatever the groups; and the pair of first groups."""
SHARE = "share_within"
__all__ = ["EXACT", "EXCESS", "SHARE", "agreement_table"]
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
    """Return how F and D agree with each of `EXACT` in each cell that has SII: `pipeline.synergy.agreements`.

    n: correlations averaged: explainers (across), samples (within), 1 (pooled). n_samples and n_explainers:
    those with F and both of `EXACT` in the cell; all others are left out. Rows whose left is `EXCESS` are
    differences: F's correlation across samples less D's, under the same draws. A cell without any has no
    row, and one without SII neither. Rows of the measure share_within (level within, left and right one
    measure) have the share of its variance that lies within samples, between their explainers: of its sum of
    squares about the grand mean, that about the samples' means, n samples with 2 explainers or more. 0: a
    sample's explainers all have one value, so the measure ranks none. Values that know nothing of their
    sample have (N - S) / (N - 1) of N values of S samples. Raises AssayError as `explainer_table`.
    """
    known = checked(scores, factors, ["f", "dividend"], "scores")
    exact = checked(sii, factors, EXACT, "sii")
    both = known.merge(exact, on=[*factors, "explainer", "sample_id"]).dropna()
    found: list[Row] = []
    for key, rows in parts(both, factors):
        cells = {name: vlm_cells(rows, factors, name)[0] for name in ("f", *EXACT)}
        dividend = rows.groupby("sample_id", sort=True)["dividend"].first().to_numpy(dtype=np.float64)
        size: Row = {"n_samples": len(dividend), "n_explainers": len(cells["f"].explainers)}
        agreed = [
            *_correlations(cells, dividend, confidence, n_bootstrap, seed),
            *(_share_within(name, cell, confidence, n_bootstrap, seed) for name, cell in cells.items()),
        ]
        found += [dict(zip(factors, key, strict=True)) | asdict(row) | size for row in agreed]
    return pd.DataFrame(found, columns=[*factors, *COLUMNS])


def _correlations(
    cells: dict[str, VlmCell], dividend: Floats, confidence: float, n_bootstrap: int, seed: int
) -> list[Agreement]:
    """Return F and D with each of `EXACT`, and F with D once: it is the same beside both."""
    found: list[Agreement] = []
    for name in EXACT:
        rows = agreements(
            cells["f"].values,
            dividend,
            cells[name].values,
            confidence=confidence,
            n_bootstrap=n_bootstrap,
            seed=seed,
        )
        found += [replace(row, right=name) for row in rows if row.right == "sii"]
    return found + [row for row in rows if row.right == "dividend"]


def _share_within(name: str, cell: VlmCell, confidence: float, n_bootstrap: int, seed: int) -> Agreement:
    (counts,) = resamples([cell], n_bootstrap, generator(seed, "share within", *cell.key))
    shares = _shares(cell.values, counts)
    drawn = shares[1:][~np.isnan(shares[1:])]
    tails = [(1 - confidence) / 2, (1 + confidence) / 2]
    low, high = np.quantile(drawn, tails) if len(drawn) else (np.nan, np.nan)
    n = int(np.sum(np.sum(~np.isnan(cell.values), axis=1) > 1)) if not np.isnan(shares[0]) else 0
    return Agreement(
        "within", name, name, SHARE, float(shares[0]), float(low), float(high), n, len(cell.values) - n
    )


def _shares(values: Floats, counts: Floats) -> Floats:
    """Return the share of the sum of squares of values (S, E) about the samples' means, under counts (B, S).

    NaN where all values are equal, where fewer than 2 samples count, and without 2 values of one sample.
    """
    known = ~np.isnan(values)
    sizes = known.sum(axis=1)
    centred = np.where(known, values - np.nanmean(values), 0.0)
    means = centred.sum(axis=1) / sizes
    within = counts @ np.sum(known * (centred - means[:, None]) ** 2, axis=1)
    total = counts @ np.sum(centred**2, axis=1) - (counts @ (sizes * means)) ** 2 / (counts @ sizes)
    varied = total > NEGLIGIBLE**2 * (counts @ sizes) * max(1.0, float(np.nanmax(np.abs(values)))) ** 2
    usable = varied & ((counts > 0).sum(axis=1) > 1) & ((counts * (sizes > 1)).sum(axis=1) > 0)
    return np.where(usable, within / np.where(usable, total, 1.0), np.nan)
