"""Errors of estimated scores against the attributes' truth, which oracle scores give."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from pipeline.errors import AssayError
from pipeline.statistics.cells import NEGLIGIBLE, POOLED, Group, Row, among, described, joined_flags
from pipeline.statistics.intervals import Floats

TRUTH_IGNORES = ("aggregation", "crowd", "estimator", "sampler", "scorer", "scoring")
ERROR_COLUMNS = (
    "method", "n_pairs", "n_zero", "n_missing", "mae", "bias", "rce_median", "n_large", "rce_large", "rce",
    "flags",
)  # fmt: skip


def with_truth(table: pd.DataFrame, factors: Sequence[str]) -> pd.DataFrame:
    """Return the scores that are not oracle scores, with the column truth, where there is any."""
    if "scoring" not in factors:
        return table.iloc[:0]
    anchor = [*(f for f in factors if not among(f, TRUTH_IGNORES)), "method", "unit", "description"]
    oracle = table[table["scoring"] == "oracle"]
    found = oracle.groupby(anchor)["estimate"].agg(["min", "max"]).reset_index()
    contradicting = found[found["max"] - found["min"] > 1e-9]
    if not contradicting.empty:
        raise AssayError(
            f"two oracle scores differ for {described(contradicting, anchor)}; name the factor they differ by"
        )
    truth = found.rename(columns={"max": "truth"})[[*anchor, "truth"]]
    judged = table[table["scoring"] != "oracle"]
    return judged.merge(truth, on=anchor, how="left") if len(truth) else judged.iloc[:0]


def error_rows(group: Group, rce_min_truth: float) -> list[Row]:
    """Return a row for all methods together and one a method; none where no truth is known.

    Replicates are not averaged first: a pair is one estimate of one study and its truth.
    """
    if group.rows["truth"].isna().all():
        return []
    by_method = [(str(method), rows) for method, rows in group.rows.groupby("method", sort=True)]
    return [
        group.head | {"method": method} | _errors(rows, rce_min_truth)
        for method, rows in [(POOLED, group.rows), *by_method]
    ]


def _errors(rows: pd.DataFrame, rce_min_truth: float) -> Row:
    truth, estimate = rows["truth"].to_numpy(dtype=np.float64), rows["estimate"].to_numpy(dtype=np.float64)
    known = ~np.isnan(truth) & ~np.isnan(estimate)
    size, error = np.abs(truth[known]), (estimate - truth)[known]
    used = size > NEGLIGIBLE
    ratios = np.abs(error[used]) / size[used]
    large = ratios[size[used] >= rce_min_truth]
    flags = joined_flags(
        ("no_pair", not used.any()),
        ("zero_truth", not used.all()),
        ("missing_scores", not known.all()),
        ("no_large_truth", used.any() and not len(large)),
    )
    return {
        "n_pairs": len(ratios),
        "n_zero": int(np.sum(~used)),
        "n_missing": int(np.sum(~known)),
        "mae": _mean(np.abs(error)),
        "bias": _mean(error),
        "rce_median": float(np.median(ratios)) if len(ratios) else np.nan,
        "n_large": len(large),
        "rce_large": _mean(large),
        "rce": _mean(ratios),
        "flags": flags,
    }


def _mean(values: Floats) -> float:
    return float(np.mean(values)) if len(values) else np.nan
