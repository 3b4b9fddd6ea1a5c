"""Differences of two methods' scores for one unit, where their draws share images on purpose."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import pandas as pd

from pipeline.crowd.estimators.paired import paired_difference
from pipeline.statistics.cells import Row

COLUMNS = (
    "unit", "method_a", "method_b", "description_a", "description_b", "difference", "low", "high", "n_shared",
    "flags",
)  # fmt: skip


def unit_pairs(
    scores: pd.DataFrame, influence: pd.DataFrame, *, factors: Sequence[str], confidence: float = 0.95
) -> pd.DataFrame:
    """Return a row a cell, unit and pair of methods: difference (a - b), its interval, images in both.

    scores: the scoring tables with the factors; influence: factors, method, unit, image_id, influence.
    Only units whose scores have influences (coordinated draws) have rows. Equal texts have equal draws
    and ratings: their difference is 0 without an interval, flag `equal_texts`. What an interval holds
    is about each estimate's own target. See `pipeline.crowd.estimators.paired`.
    """
    if influence.empty:
        return pd.DataFrame(columns=[*factors, *COLUMNS])
    keys = [*factors, "unit"]
    known: dict[object, Any] = {
        tuple(row[name] for name in [*keys, "method"]): row for row in scores.to_dict("records")
    }
    rows = [
        dict(zip(keys, place, strict=True)) | row
        for place, part in influence.groupby(keys, sort=True)
        for row in _rows(place, part, known, confidence)
    ]
    return pd.DataFrame(rows, columns=[*factors, *COLUMNS])


def _rows(
    place: tuple[object, ...], part: pd.DataFrame, known: Mapping[object, Any], confidence: float
) -> Iterator[Row]:
    by_method = {
        str(method): dict(zip(rows["image_id"], rows["influence"], strict=True))
        for method, rows in part.groupby("method", sort=True)
    }
    for a, b in combinations(by_method, 2):
        one, other = (known[(*place, method)] for method in (a, b))
        rho = (float(one["estimate"]), float(other["estimate"]))
        found = paired_difference(rho, (by_method[a], by_method[b]), confidence=confidence)
        same = bool(one["description"] == other["description"])
        yield {
            "method_a": a,
            "method_b": b,
            "description_a": one["description"],
            "description_b": other["description"],
            "difference": found.difference,
            "low": float("nan") if same else found.low,
            "high": float("nan") if same else found.high,
            "n_shared": found.n_shared,
            "flags": "equal_texts" if same else "",
        }
