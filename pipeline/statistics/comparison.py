"""Which method explains best: means over units, paired tests, and errors against the truth."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipeline.errors import AssayError
from pipeline.seeds import generator
from pipeline.statistics.cells import (
    NEGLIGIBLE,
    Group,
    Row,
    described,
    groups,
    identity_factors,
    joined_flags,
)
from pipeline.statistics.errors import ERROR_COLUMNS, error_rows, with_truth
from pipeline.statistics.intervals import Codes, Floats, mean_interval
from pipeline.statistics.paired import holm, paired_t, signed_rank
from pipeline.statistics.ranking import common_units, first_shares, ranking

__all__ = ["Comparison", "compare"]

SCORE_COLUMNS = ("method", "unit", "description", "estimate", "n_images", "n_ratings", "flags")
METHOD_COLUMNS = (
    "method", "rank", "n_units", "n_texts", "n_missing", "n_absent", "mean", "sd", "low", "high",
    "n_common", "mean_common", "p_first", "n_ratings", "n_prior_decides", "flags",
)  # fmt: skip
PAIR_COLUMNS = (
    "method_a", "method_b", "n_units", "n_missing", "difference", "low", "high", "t", "p_t", "p_t_holm",
    "p_wilcoxon", "p_wilcoxon_holm", "flags",
)  # fmt: skip


@dataclass(frozen=True)
class Comparison:
    """Three tables whose rows start with level ("overall" or "cell") and the factors.

    methods: method, rank (by mean_common), n_units (scored), n_texts (their distinct texts),
        n_missing (NaN scores), n_absent (units that only other methods have), mean, sd, low, high
        (over the method's own units; t interval clustered by text), n_common (units that all methods
        scored), mean_common, p_first (share of bootstrap samples of the common units in which the
        method's mean is the highest), n_ratings (ratings used: one that units share counts for each),
        n_prior_decides (scores in which a prior overruled a unanimous vote), flags.
    pairs: method_a, method_b (by name), n_units (scored by both), n_missing (by one or neither),
        difference (a - b), low, high (t interval over units), t, p_t, p_wilcoxon and both p after
        Holm, flags.
    errors: method ("all" for all of them), n_pairs, n_zero (truth 0) and n_missing (left out); mae and
        bias over n_pairs + n_zero; rce_median and rce over n_pairs; rce_large over the n_large with
        |truth| >= rce_min_truth; flags. Empty without oracle scores.
    A pooled factor reads "all" in an overall row. No interval or p value covers what units share:
    images, ratings, scorer.
    """

    methods: pd.DataFrame
    pairs: pd.DataFrame
    errors: pd.DataFrame
    factors: tuple[str, ...]
    confidence: float
    rce_min_truth: float


@dataclass(frozen=True)
class _Wide:
    """Scores of n units (rows) and M methods, replicates averaged; a text is a number."""

    methods: tuple[str, ...]
    values: Floats
    texts: Codes
    present: NDArray[np.bool_]
    lost_replicate: NDArray[np.bool_]


def compare(
    scores: pd.DataFrame,
    *,
    factors: Sequence[str],
    confidence: float = 0.95,
    n_bootstrap: int = 2000,
    seed: int = 0,
    rce_min_truth: float = 0.05,
) -> Comparison:
    """Compare explanation methods over units, in each cell of a sweep and over all of them.

    scores: one row a (factors, method, unit), with SCORE_COLUMNS and the factors; NaN scores are
    counted as missing and enter no mean. The order of the rows does not matter. In overall rows the
    scores of one unit under several seeds are averaged first. Intervals of means are t intervals
    clustered by text (Cameron and Miller 2015), tests are paired over the units that both methods
    have, adjusted by Holm over the pairs of one group of rows. Rank and p_first are over the units
    that all methods scored. RCE is defined by Oikarinen et al. (arXiv 2506.07985). Raises AssayError
    for missing columns, null keys, double rows, infinite scores and contradicting truths.
    """
    names = tuple(factors)
    table = _checked(scores, names)
    methods: list[Row] = []
    pairs: list[Row] = []
    for group in groups(table, names):
        wide = _wide(group.rows, names)
        rng = generator(seed, "comparison", *group.head.values())
        common = wide.values[common_units(wide.values)]
        methods += _method_rows(group, wide, confidence, common, first_shares(common, n_bootstrap, rng))
        pairs += _pair_rows(group, wide, confidence)
    judged = with_truth(table, names)
    errors = [row for group in groups(judged, names) for row in error_rows(group, rce_min_truth)]
    lead = ["level", *names]
    return Comparison(
        methods=pd.DataFrame(methods, columns=[*lead, *METHOD_COLUMNS]).astype({"rank": "Int64"}),
        pairs=pd.DataFrame(pairs, columns=[*lead, *PAIR_COLUMNS]),
        errors=pd.DataFrame(errors, columns=[*lead, *ERROR_COLUMNS]),
        factors=names,
        confidence=confidence,
        rce_min_truth=rce_min_truth,
    )


def _checked(scores: pd.DataFrame, factors: tuple[str, ...]) -> pd.DataFrame:
    keys = [*factors, "method", "unit"]
    needed = [*factors, *SCORE_COLUMNS]
    if missing := [name for name in needed if name not in scores.columns]:
        raise AssayError(
            f"scores lack the columns {', '.join(missing)}; they have {', '.join(scores.columns)}"
        )
    if scores.empty:
        raise AssayError("scores have no row: there is nothing to compare")
    for name in keys:
        if (null := scores[name].isna()).any():
            row = int(np.flatnonzero(null)[0])
            raise AssayError(f"scores: '{name}' is empty in row {row}; write a word such as 'none' there")
    table = scores[needed].astype(dict.fromkeys([*factors, "method", "description"], str))
    table["estimate"] = table["estimate"].astype(np.float64)
    if np.isinf(table["estimate"]).any():
        raise AssayError(f"scores: {described(table[np.isinf(table['estimate'])], keys)} is infinite")
    if (double := table.duplicated(keys)).any():
        raise AssayError(
            f"scores: {described(table[double], keys)} is there twice; a unit has one score a cell"
        )
    return table.sort_values(keys, kind="stable", ignore_index=True)


def _wide(rows: pd.DataFrame, factors: tuple[str, ...]) -> _Wide:
    keys = [*identity_factors(factors), "unit"]
    table = _replicates_averaged(rows, [*keys, "method"])
    units = table.groupby(keys, sort=True).ngroup().to_numpy()
    codes, methods = pd.factorize(table["method"], sort=True)
    shape = (units.max() + 1, len(methods))
    values, texts = np.full(shape, np.nan), np.zeros(shape, dtype=np.int64)
    present, lost = np.zeros(shape, dtype=np.bool_), np.zeros(shape, dtype=np.bool_)
    values[units, codes] = table["estimate"]
    texts[units, codes] = pd.factorize(table["description"])[0]
    present[units, codes] = True
    lost[units, codes] = table["n_scored"].between(1, table["n_rows"], inclusive="left")
    return _Wide(tuple(str(name) for name in methods), values, texts, present, lost)


def _replicates_averaged(rows: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Return one row a key: the mean of its scores (NaN if all are), and the set of their texts."""
    if not rows.duplicated(keys).any():
        return rows[[*keys, "estimate", "description"]].assign(n_rows=1, n_scored=1)
    estimates = rows.groupby(keys)["estimate"].agg(["mean", "size", "count"])
    scored = rows[rows["estimate"].notna()].drop_duplicates([*keys, "description"])
    texts = scored.sort_values("description", kind="stable").groupby(keys)["description"].agg("\x1f".join)
    averaged = estimates.set_axis(["estimate", "n_rows", "n_scored"], axis=1).join(texts)
    return averaged.fillna({"description": ""}).reset_index()


def _method_rows(group: Group, wide: _Wide, confidence: float, common: Floats, shares: Floats) -> list[Row]:
    n_common = len(common)
    means: Floats = common.mean(axis=0) if n_common else np.full(len(wide.methods), np.nan)
    by_method = dict(iter(group.rows.groupby("method")))
    rows: list[Row] = []
    for rank, m in enumerate(ranking(means), start=1):
        placed = {
            "method": wide.methods[m],
            "rank": rank if n_common else None,
            "n_common": n_common,
            "mean_common": means[m],
            "p_first": shares[m],
        }
        own = _own(wide, m, confidence)
        used = _used(by_method[wide.methods[m]])
        flags = joined_flags(
            (str(own["flags"]), bool(own["flags"])),
            ("common_units_only", 0 < n_common < int(own["n_units"])),
            ("no_common_unit", n_common == 0 and int(own["n_units"]) > 0),
            ("tied", int(np.sum(np.abs(means - means[m]) <= NEGLIGIBLE)) > 1),
            (str(used["flags"]), bool(used["flags"])),
        )
        rows.append(group.head | own | used | placed | {"flags": flags})
    return rows


def _own(wide: _Wide, m: int, confidence: float) -> dict[str, Any]:
    """Return what the units that method m scored say of it, whatever other methods scored."""
    values, present = wide.values[:, m], wide.present[:, m]
    scored = ~np.isnan(values)
    found = mean_interval(values[scored], confidence, wide.texts[scored, m])
    n_missing, n_absent = int(np.sum(present & ~scored)), int(np.sum(~present))
    flags = joined_flags(
        (found.flag, bool(found.flag)),
        ("missing_scores", n_missing > 0),
        ("missing_replicates", bool(wide.lost_replicate[:, m].any())),
        ("absent_units", n_absent > 0),
    )
    return {
        "n_units": found.n,
        "n_texts": found.n_texts,
        "n_missing": n_missing,
        "n_absent": n_absent,
        "mean": found.mean,
        "sd": found.sd,
        "low": found.low,
        "high": found.high,
        "flags": flags,
    }


def _used(rows: pd.DataFrame) -> dict[str, Any]:
    """Return what a method's scores were made of; replicates count one by one."""
    flags = [set(str(words).split(";")) for words in rows["flags"]]
    return {
        "n_ratings": int(rows["n_ratings"].sum()),
        "n_prior_decides": sum("prior_decides" in words for words in flags),
        "flags": "top_images_only" if any("top_images_only" in words for words in flags) else "",
    }


def _pair_rows(group: Group, wide: _Wide, confidence: float) -> list[Row]:
    rows = [
        group.head
        | {"method_a": wide.methods[a], "method_b": wide.methods[b]}
        | _paired(wide.values[:, a] - wide.values[:, b], confidence)
        for a, b in combinations(range(len(wide.methods)), 2)
    ]
    for name in ("p_t", "p_wilcoxon"):
        adjusted = holm(np.array([row[name] for row in rows], dtype=np.float64))
        for row, p in zip(rows, adjusted, strict=True):
            row[f"{name}_holm"] = p
    return rows


def _paired(differences: Floats, confidence: float) -> Row:
    # Rounded, so that differences equal but for the last bits tie: ties and zeros decide ranks.
    shared = np.round(differences[~np.isnan(differences)], 12)
    n_missing = len(differences) - len(shared)
    interval = mean_interval(shared, confidence)
    t, p_t = paired_t(shared)
    flags = joined_flags(
        (interval.flag, bool(interval.flag)),
        ("missing_units", n_missing > 0),
        ("all_zero", len(shared) > 0 and not np.any(shared)),
    )
    return {
        "n_units": interval.n,
        "n_missing": n_missing,
        "difference": interval.mean,
        "low": interval.low,
        "high": interval.high,
        "t": t,
        "p_t": p_t,
        "p_wilcoxon": signed_rank(shared),
        "flags": flags,
    }
