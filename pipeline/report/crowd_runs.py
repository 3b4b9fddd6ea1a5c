"""What W&B is told of the crowd track: a point's scores and numbers, a sweep's tables and best method."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipeline.report.tracking import PointRecord, SweepRecord
from pipeline.statistics.cells import kept_apart
from pipeline.statistics.comparison import Comparison


def point_record(
    key: str,
    config: Mapping[str, Any],
    factors: Mapping[str, str],
    scores: pd.DataFrame,
    comparison: Comparison,
    tags: tuple[str, ...] = (),
    results: Mapping[str, str] | None = None,
) -> PointRecord:
    """Return a point's record; its run is named by its factors and methods.

    scores: method, unit, description, estimate, n_images, n_ratings, flags; one row a unit.
    """
    methods = dict.fromkeys(str(method) for method in scores["method"])
    return PointRecord(
        key=key,
        name=" ".join([*factors.values(), *methods]),
        config={**config, "factors": dict(factors)},
        tables={"scores": scores},
        summary=point_summary(scores, factors, comparison),
        tags=tags,
        results=results or {},
    )


def sweep_record(
    name: str, key: str, comparison: Comparison, figure: Path, config: Mapping[str, Any]
) -> SweepRecord:
    """Return the sweep's record: methods, pairs, errors, the figure, and the best method."""
    tables = {"methods": comparison.methods, "pairs": comparison.pairs, "errors": comparison.errors}
    return SweepRecord(name, key, tables, {"figure": figure}, sweep_summary(comparison), config)


def point_summary(scores: pd.DataFrame, factors: Mapping[str, str], comparison: Comparison) -> dict[str, Any]:
    """Return the numbers of a point: mean_estimate, n_units, n_missing, n_ratings, rce.

    Nulls (no scored unit, no known truth) are left out.
    """
    estimates = scores["estimate"].to_numpy(dtype=np.float64)
    scored = estimates[~np.isnan(estimates)]
    summary = {
        "mean_estimate": float(np.mean(scored)) if len(scored) else None,
        "n_units": len(scored),
        "n_missing": len(estimates) - len(scored),
        "n_ratings": int(scores["n_ratings"].sum()),
        "rce": _rce(scores, factors, comparison),
    }
    return {name: value for name, value in summary.items() if value is not None}


def sweep_summary(comparison: Comparison) -> dict[str, Any]:
    """Return the best method overall, its mean and p_first; one of each per way of judging."""
    methods = comparison.methods
    best = methods[(methods["level"] == "overall") & (methods["rank"] == 1)]
    varying = [name for name in kept_apart(comparison.factors) if len(set(best[name])) > 1]
    summary: dict[str, Any] = {}
    for _, row in best.iterrows():
        end = "".join(f"/{row[name]}" for name in varying)
        summary[f"best_method{end}"] = row["method"]
        summary[f"best_mean{end}"] = row["mean"]
        summary[f"p_first{end}"] = row["p_first"]
    return {name: value for name, value in summary.items() if not pd.isna(value)}


def _rce(scores: pd.DataFrame, factors: Mapping[str, str], comparison: Comparison) -> float | None:
    errors = comparison.errors[comparison.errors["level"] == "cell"]
    for name in comparison.factors:
        errors = errors[errors[name] == factors.get(name)]
    methods = set(scores["method"])
    errors = errors[errors["method"] == (methods.pop() if len(methods) == 1 else "all")]
    return None if errors.empty or np.isnan(errors["rce"].iloc[0]) else float(errors["rce"].iloc[0])
