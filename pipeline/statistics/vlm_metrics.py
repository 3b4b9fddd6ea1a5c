"""How each metric ranks the explainers, and whether two metrics rank them alike."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pandas as pd

from pipeline.statistics.cells import Row
from pipeline.statistics.intervals import Floats
from pipeline.statistics.ranking import common_units, ranking
from pipeline.statistics.vlm_cells import VlmCell, checked, parts, vlm_cells
from pipeline.synergy.agreement import rank_agreement

SCORED = ("f", "image_auc_del", "text_auc_del", "image_srg", "text_srg", "pointing", "iou")
METRICS = (*SCORED, "sii")
LOWER_IS_BETTER = ("image_auc_del", "text_auc_del")
RANKING_COLUMNS = ("metric", "explainer", "value", "rank", "n_samples")
TAU_COLUMNS = ("left", "right", "tau", "p", "n", "exact")


def rankings_table(scores: pd.DataFrame, sii: pd.DataFrame, factors: Sequence[str]) -> pd.DataFrame:
    """Return how each metric ranks a cell's explainers: a row a cell, metric and explainer, by rank.

    value: the mean over the n_samples samples that every explainer with any value of the metric has, so f
    is mean_common of `explainer_table`; sii and pointing may be about fewer samples than f. Rank 1 is the
    best: the lowest value of a deletion curve, else the highest; ties go by name. A metric that fewer than
    two explainers have on common samples has no row in that cell. Raises AssayError as `explainer_table`.
    """
    tables = {
        **dict.fromkeys(SCORED, checked(scores, factors, SCORED, "scores")),
        "sii": checked(sii, factors, ["sii"], "sii"),
    }
    found: list[Row] = []
    for metric, table in tables.items():
        for cell in vlm_cells(table, factors, metric):
            found += _ranked(metric, cell, factors)
    columns = [*factors, *RANKING_COLUMNS]
    order = {metric: place for place, metric in enumerate(METRICS)}
    rows = pd.DataFrame(found, columns=columns).assign(place=lambda t: t["metric"].map(order))
    return rows.sort_values([*factors, "place", "rank"], kind="stable", ignore_index=True)[columns]


def _ranked(metric: str, cell: VlmCell, factors: Sequence[str]) -> list[Row]:
    common = cell.values[common_units(cell.values)]
    known = ~np.isnan(common).any(axis=0)
    if len(common) == 0 or known.sum() < 2:
        return []
    means = common[:, known].mean(axis=0)
    names = np.array(cell.explainers)[known]
    head = dict(zip(factors, cell.key, strict=True)) | {"metric": metric}
    return [
        head | {"explainer": str(names[e]), "value": float(means[e]), "rank": rank, "n_samples": len(common)}
        for rank, e in enumerate(ranking(_quality(metric, means)), start=1)
    ]


def tau_table(rankings: pd.DataFrame, factors: Sequence[str]) -> pd.DataFrame:
    """Return Kendall's tau of each two metrics of a cell, left before right in `METRICS`' order.

    rankings: `rankings_table`. +1 says that both have the same order of quality. tau is of the values over
    the n explainers that both rank, so ties stay ties: see `pipeline.synergy.rank_agreement` for p, exact
    and what is null. With n below 2 tau and p are null.
    """
    found: list[Row] = []
    for key, rows in parts(rankings, factors):
        qualities = {
            str(metric): _qualities(str(metric), own) for metric, own in rows.groupby("metric", sort=False)
        }
        for left, right in combinations([metric for metric in METRICS if metric in qualities], 2):
            both = qualities[left].index.intersection(qualities[right].index)
            tau = rank_agreement(qualities[left][both], qualities[right][both])
            head = dict(zip(factors, key, strict=True)) | {"left": left, "right": right}
            found.append(head | {"tau": tau.tau, "p": tau.p, "n": tau.n, "exact": tau.exact})
    return pd.DataFrame(found, columns=[*factors, *TAU_COLUMNS])


def _qualities(metric: str, rows: pd.DataFrame) -> pd.Series:
    """Return a metric's values by explainer, higher is better; those equal but for the last bits tie."""
    return pd.Series(
        _quality(metric, np.round(rows["value"].to_numpy(dtype=np.float64), 12)), rows["explainer"]
    )


def _quality(metric: str, values: Floats) -> Floats:
    return -values if metric in LOWER_IS_BETTER else values
