"""Priors and error rates as they are given: checked, and matched to the pairs."""

import numpy as np
import pandas as pd

from pipeline.crowd.aggregation.posterior import ERROR_RATE, PRIOR_RANGE
from pipeline.crowd.aggregation.votes import PAIR, Votes, check_columns
from pipeline.crowd.arrays import FloatArray
from pipeline.errors import AssayError


def one_rate(method: str, error_rate: float | tuple[float, float] | None) -> float:
    """Return the error rate, .23 for None; AssayError for a pair of rates."""
    if isinstance(error_rate, tuple | list):
        raise AssayError(
            f"{method} takes one error rate, not {error_rate!r}; bragg_em takes (miss, false_alarm)"
        )
    return ERROR_RATE if error_rate is None else error_rate


def pair_priors(votes: Votes, table: pd.DataFrame) -> tuple[FloatArray, FloatArray]:
    """Return each pair's prior, clipped to [.001, .999], and its weight, 1 without that column: (P,), (P,).

    table has image_id, description, prior and perhaps weight; equal rows are one. Raises AssayError for
    a missing column or value, a prior outside [0, 1], a weight that is not positive and finite, two
    rows of a pair that differ, and a pair without a row.
    """
    columns = [*PAIR, "prior", *(["weight"] if "weight" in table else [])]
    check_columns("prior", table, columns)
    rows = table[columns].drop_duplicates()
    _check(rows)
    found = rows.set_index(PAIR).reindex(pd.MultiIndex.from_frame(votes.pairs))
    priors = found["prior"].to_numpy(dtype=np.float64)
    if np.isnan(priors).any():
        bad = votes.pairs[np.isnan(priors)].head(1).to_dict("records")[0]
        raise AssayError(
            f"no prior for image {bad['image_id']!r} with {bad['description']!r}; add it to the table"
        )
    weights = found["weight"].to_numpy(dtype=np.float64) if "weight" in found else np.ones(len(priors))
    return np.clip(priors, *PRIOR_RANGE), weights


def _check(rows: pd.DataFrame) -> None:
    _check_values(rows, "prior", rows["prior"].between(0, 1), "in [0, 1]")
    if "weight" in rows:
        _check_values(rows, "weight", (rows["weight"] > 0) & np.isfinite(rows["weight"]), "positive, finite")
    if (twice := rows.duplicated(PAIR)).any():
        bad = rows[twice].head(1).to_dict("records")[0]
        raise AssayError(f"two priors for image {bad['image_id']!r} with {bad['description']!r}; keep one")


def _check_values(rows: pd.DataFrame, column: str, legal: "pd.Series[bool]", rule: str) -> None:
    if not legal.all():
        bad = rows[~legal].head(1).to_dict("records")[0]
        raise AssayError(
            f"{column} of image {bad['image_id']!r} with {bad['description']!r} is {bad[column]}; "
            f"it must be {rule}"
        )
