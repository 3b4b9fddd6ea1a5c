"""How each metric ranks the explainers, and whether two metrics rank them alike."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pandas as pd

from pipeline.statistics.cells import Row
from pipeline.statistics.intervals import Codes, Floats
from pipeline.statistics.ranking import common_units, ranking
from pipeline.statistics.vlm_cells import Key, VlmCell, checked, vlm_cells
from pipeline.synergy.agreement import RankAgreement, rank_agreement

SCORED = ("f", "image_auc_del", "text_auc_del", "image_srg", "text_srg", "pointing", "iou")
EXACT = ("sii", "sii_top")
METRICS = (*SCORED, *EXACT)
LOWER_IS_BETTER = ("image_auc_del", "text_auc_del")
RANKING_COLUMNS = ("metric", "explainer", "value", "rank", "n_samples")
TAU_COLUMNS = ("left", "right", "tau", "p", "n", "exact", "n_samples")


def rankings_table(scores: pd.DataFrame, sii: pd.DataFrame, factors: Sequence[str]) -> pd.DataFrame:
    """Return how each metric ranks a cell's explainers: a row a cell, metric and explainer, by rank.

    sii: the sum over all cross-modal pairs of rank groups and, as sii_top, the pair of first groups.
    value: the mean over the n_samples samples that every explainer with any value of the metric has, so f
    is mean_common of `explainer_table`; SII and pointing may be about fewer samples than f. Rank 1 is the
    best: the lowest value of a deletion curve, else the highest; ties go by name. A metric that fewer than
    two explainers have on common samples has no row in that cell. Raises AssayError as `explainer_table`.
    """
    found = [
        row
        for cells in _measured(scores, sii, factors)
        for metric, cell in cells.items()
        for row in _ranked(metric, cell, factors)
    ]
    return pd.DataFrame(found, columns=[*factors, *RANKING_COLUMNS])


def tau_table(scores: pd.DataFrame, sii: pd.DataFrame, factors: Sequence[str]) -> pd.DataFrame:
    """Return Kendall's tau of each two metrics that rank a cell, left before right in `METRICS`' order.

    Two metrics are compared on what both have: the n explainers that have both, by their means over the
    n_samples samples where all of these do. So F beside SII is F on the samples and explainers of SII, and
    its order there may differ from `rankings_table`'s. +1 says that both have the same order of quality.
    Means equal but for the last bits tie: see `pipeline.synergy.rank_agreement` for p, exact and what is
    null. With n below 2 tau and p are null. Raises AssayError as `explainer_table`.
    """
    found: list[Row] = []
    for cells in _measured(scores, sii, factors):
        ranked = [metric for metric, cell in cells.items() if _ranked(metric, cell, factors)]
        for left, right in combinations(ranked, 2):
            tau, n_samples = _tau(left, cells[left], right, cells[right])
            head = dict(zip(factors, cells[left].key, strict=True)) | {"left": left, "right": right}
            known: Row = {"tau": tau.tau, "p": tau.p, "n": tau.n, "exact": tau.exact}
            found.append(head | known | {"n_samples": n_samples})
    return pd.DataFrame(found, columns=[*factors, *TAU_COLUMNS])


def _measured(scores: pd.DataFrame, sii: pd.DataFrame, factors: Sequence[str]) -> list[dict[str, VlmCell]]:
    """Return each cell's metrics, cells by key and metrics in `METRICS`' order."""
    tables = {
        **dict.fromkeys(SCORED, checked(scores, factors, SCORED, "scores")),
        **dict.fromkeys(EXACT, checked(sii, factors, EXACT, "sii")),
    }
    found: dict[Key, dict[str, VlmCell]] = {}
    for metric, table in tables.items():
        for cell in vlm_cells(table, factors, metric):
            found.setdefault(cell.key, {})[metric] = cell
    return [found[key] for key in sorted(found)]


def _ranked(metric: str, cell: VlmCell, factors: Sequence[str]) -> list[Row]:
    rows, known = _shared(cell.values)
    if len(known) < 2:
        return []
    means = cell.values[np.ix_(rows, known)].mean(axis=0)
    names = np.array(cell.explainers)[known]
    head = dict(zip(factors, cell.key, strict=True)) | {"metric": metric}
    return [
        head | {"explainer": str(names[e]), "value": float(means[e]), "rank": rank, "n_samples": len(rows)}
        for rank, e in enumerate(ranking(_quality(metric, means)), start=1)
    ]


def _tau(left: str, one: VlmCell, right: str, other: VlmCell) -> tuple[RankAgreement, int]:
    """Return how two metrics agree on the explainers and samples that have both, and on how many samples."""
    a, b = (table.to_numpy() for table in _frame(one).align(_frame(other), join="inner"))
    rows, known = _shared(a + b)
    both = [
        np.round(_quality(metric, values[np.ix_(rows, known)].sum(axis=0) / max(len(rows), 1)), 12)
        for metric, values in ((left, a), (right, b))
    ]
    return rank_agreement(*both), len(rows)


def _frame(cell: VlmCell) -> pd.DataFrame:
    return pd.DataFrame(cell.values, index=list(cell.samples), columns=list(cell.explainers))


def _shared(values: Floats) -> tuple[Codes, Codes]:
    """Return the rows that every column with any value has, and those columns; no column without a row."""
    rows = np.flatnonzero(common_units(values))
    columns = np.flatnonzero(np.isfinite(values[rows]).any(axis=0))
    return np.asarray(rows, dtype=np.int64), np.asarray(columns, dtype=np.int64)


def _quality(metric: str, values: Floats) -> Floats:
    return -values if metric in LOWER_IS_BETTER else values
