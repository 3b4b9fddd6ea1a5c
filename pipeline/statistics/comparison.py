"""Which method explains best: means over units, paired tests, and errors against the truth.

A *cell* is one combination of the factors of a sweep. Some factors say what is judged (model,
layer, dataset), others how (`PROTOCOL`). The `overall` rows pool the cells of what is judged and
keep the protocols apart: the same unit under two samplers is one unit, not two.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from pipeline.errors import AssayError
from pipeline.seeds import generator

Floats = NDArray[np.float64]
Row = dict[str, object]

PROTOCOL = ("aggregation", "crowd", "evaluation", "numerics", "sampler", "scorer", "scoring")
TRUTH_IGNORES = ("aggregation", "crowd", "sampler", "scorer", "scoring")
SCORE_COLUMNS = ("method", "unit", "description", "estimate", "n_images", "n_ratings", "flags")
METHOD_COLUMNS = (
    "method", "rank", "n_units", "n_missing", "n_absent", "mean", "sd", "low", "high", "n_ratings",
    "p_first", "flags",
)  # fmt: skip
PAIR_COLUMNS = (
    "method_a", "method_b", "n_units", "n_missing", "difference", "low", "high", "t", "p_t", "p_t_holm",
    "p_wilcoxon", "p_wilcoxon_holm", "flags",
)  # fmt: skip
ERROR_COLUMNS = ("method", "n_pairs", "n_zero", "n_missing", "rce", "flags")
POOLED = "all"
NEGLIGIBLE = 1e-12
BLOCK = 1 << 21


@dataclass(frozen=True)
class Comparison:
    """Three tables whose rows start with level ("overall" or "cell") and the factors.

    methods: method, rank, n_units (scored), n_missing (NaN scores), n_absent (units that only
        other methods have), mean, sd, low, high (t interval of the mean over units), n_ratings,
        p_first (share of bootstrap samples of units in which the method's mean is the highest), flags.
    pairs: method_a, method_b (by name), n_units (scored by both), n_missing (by one or neither),
        difference (a - b), low, high, t, p_t, p_wilcoxon and both p after Holm, flags.
    errors: method ("all" for all of them), n_pairs, n_zero and n_missing (left out), rce, flags;
        empty without oracle scores.
    A pooled factor reads "all" in an overall row.
    """

    methods: pd.DataFrame
    pairs: pd.DataFrame
    errors: pd.DataFrame
    factors: tuple[str, ...]
    confidence: float


@dataclass(frozen=True)
class MeanInterval:
    """A mean, its standard deviation and t interval; flag is "", "no_unit", "one_unit" or "constant"."""

    n: int
    mean: float
    sd: float
    low: float
    high: float
    flag: str


@dataclass(frozen=True)
class _Group:
    head: Row
    rows: pd.DataFrame


@dataclass(frozen=True)
class _Wide:
    methods: tuple[str, ...]
    values: Floats
    present: NDArray[np.bool_]


def compare(
    scores: pd.DataFrame,
    *,
    factors: Sequence[str],
    confidence: float = 0.95,
    n_bootstrap: int = 2000,
    seed: int = 0,
) -> Comparison:
    """Compare explanation methods over units, in each cell of a sweep and over all of them.

    scores: one row a (factors, method, unit), with SCORE_COLUMNS and the factors; NaN scores are
    counted as missing and enter no mean. The order of the rows does not matter. Intervals are t
    intervals over units, tests are paired over the units that both methods have, adjusted by Holm
    over the pairs of one cell. RCE is defined by Oikarinen et al. (arXiv 2506.07985). Raises
    AssayError for missing columns, null keys, double rows, infinite scores and contradicting truths.
    """
    names = tuple(factors)
    table = _checked(scores, names)
    methods: list[Row] = []
    pairs: list[Row] = []
    for group in _groups(table, names):
        wide = _wide(group, names)
        rng = generator(seed, "comparison", *group.head.values())
        methods += _method_rows(group, wide, confidence, first_shares(wide.values, n_bootstrap, rng))
        pairs += _pair_rows(group, wide, confidence)
    errors = [row for group in _groups(_with_truth(table, names), names) for row in _error_rows(group)]
    lead = ["level", *names]
    return Comparison(
        methods=pd.DataFrame(methods, columns=[*lead, *METHOD_COLUMNS]),
        pairs=pd.DataFrame(pairs, columns=[*lead, *PAIR_COLUMNS]),
        errors=pd.DataFrame(errors, columns=[*lead, *ERROR_COLUMNS]),
        factors=names,
        confidence=confidence,
    )


def mean_interval(values: Floats, confidence: float = 0.95) -> MeanInterval:
    """Return the mean of values (n,) with its t interval.

    n = 0: all null. n = 1: sd and interval null. All values equal: sd 0 and the interval is the mean.
    """
    n = len(values)
    if n == 0:
        return MeanInterval(0, np.nan, np.nan, np.nan, np.nan, "no_unit")
    mean = float(np.mean(values))
    if n == 1:
        return MeanInterval(1, mean, np.nan, np.nan, np.nan, "one_unit")
    if np.ptp(values) <= NEGLIGIBLE:
        return MeanInterval(n, mean, 0.0, mean, mean, "constant")
    sd = float(np.std(values, ddof=1))
    half = float(stats.t.ppf((1 + confidence) / 2, n - 1)) * sd / np.sqrt(n)
    return MeanInterval(n, mean, sd, mean - half, mean + half, "")


def paired_t(differences: Floats) -> tuple[float, float]:
    """Return t and the two-sided p of a paired t test on differences (n,).

    Fewer than two: null. All zero: (0, 1). All equal and not zero: (+-inf, 0), the limit.
    """
    n = len(differences)
    if n < 2:
        return np.nan, np.nan
    mean = float(np.mean(differences))
    if np.ptp(differences) <= NEGLIGIBLE:
        return (0.0, 1.0) if abs(mean) <= NEGLIGIBLE else (float(np.copysign(np.inf, mean)), 0.0)
    t = mean / (float(np.std(differences, ddof=1)) / np.sqrt(n))
    return t, float(2 * stats.t.sf(abs(t), n - 1))


def signed_rank(differences: Floats) -> float:
    """Return the two-sided p of Wilcoxon's signed-rank test on differences (n,), zeros as Pratt has them.

    None: null. One, or all zero: 1. Exact where that is cheap: 50 or fewer without ties or zeros,
    13 or fewer with them; else the normal approximation.
    """
    if len(differences) == 0:
        return np.nan
    if len(differences) == 1 or not np.any(differences):
        return 1.0
    return float(stats.wilcoxon(differences, zero_method="pratt").pvalue)


def holm(p: Floats) -> Floats:
    """Return p (m,) adjusted by Holm (1979); null values stay null and do not count in m."""
    adjusted = np.full(len(p), np.nan)
    known = np.flatnonzero(~np.isnan(p))
    order = known[np.argsort(p[known], kind="stable")]
    steps = np.arange(len(order), 0, -1) * p[order]
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted


def first_shares(values: Floats, n_bootstrap: int, rng: np.random.Generator) -> Floats:
    """Return how often each column of values (n units, M methods) has the highest mean, as (M,).

    Units are drawn with replacement, the same ones for every method; NaN scores enter no mean.
    Methods that tie share the sample equally. A method without a score is null.
    """
    scored = ~np.isnan(values)
    if not scored.any():
        return np.full(values.shape[1], np.nan)
    filled, weights = np.where(scored, values, 0.0), scored.astype(np.float64)
    n, total = len(values), np.zeros(values.shape[1])
    rows = max(1, BLOCK // n)
    for start in range(0, n_bootstrap, rows):
        counts = _resampled(n, min(rows, n_bootstrap - start), rng)
        sizes = counts @ weights
        means = np.where(sizes > 0, (counts @ filled) / np.maximum(sizes, 1), -np.inf)
        first = means >= means.max(axis=1, keepdims=True) - NEGLIGIBLE
        total += np.sum(first / first.sum(axis=1, keepdims=True), axis=0)
    return np.where(scored.any(axis=0), total / n_bootstrap, np.nan)


def _resampled(n: int, n_samples: int, rng: np.random.Generator) -> Floats:
    index = rng.integers(n, size=(n_samples, n)) + n * np.arange(n_samples)[:, None]
    return np.bincount(index.ravel(), minlength=n_samples * n).reshape(n_samples, n).astype(np.float64)


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
        raise AssayError(f"scores: {_named(table[np.isinf(table['estimate'])], keys)} is infinite")
    if (double := table.duplicated(keys)).any():
        raise AssayError(f"scores: {_named(table[double], keys)} is there twice; a unit has one score a cell")
    return table.sort_values(keys, kind="stable", ignore_index=True)


def _named(rows: pd.DataFrame, keys: Sequence[str]) -> str:
    return " ".join(f"{key}={rows.iloc[0][key]}" for key in keys)


def _among(factor: str, group: tuple[str, ...]) -> bool:
    return factor.split(".")[0] in group


def _groups(table: pd.DataFrame, factors: tuple[str, ...]) -> Iterator[_Group]:
    kept = [name for name in factors if _among(name, PROTOCOL)]
    for key, rows in _parts(table, kept):
        cell = dict.fromkeys(factors, POOLED) | dict(zip(kept, key, strict=True))
        yield _Group({"level": "overall", **cell}, rows)
    for key, rows in _parts(table, list(factors)):
        yield _Group({"level": "cell", **dict(zip(factors, key, strict=True))}, rows)


def _parts(table: pd.DataFrame, by: list[str]) -> Iterator[tuple[tuple[str, ...], pd.DataFrame]]:
    if table.empty:
        return
    if not by:
        yield (), table
        return
    for key, rows in table.groupby(by, sort=True):
        yield tuple(str(value) for value in key), rows


def _wide(group: _Group, factors: tuple[str, ...]) -> _Wide:
    units = group.rows.groupby([*factors, "unit"], sort=True).ngroup().to_numpy()
    codes, methods = pd.factorize(group.rows["method"], sort=True)
    values = np.full((units.max() + 1, len(methods)), np.nan)
    values[units, codes] = group.rows["estimate"]
    present = np.zeros(values.shape, dtype=np.bool_)
    present[units, codes] = True
    return _Wide(tuple(str(name) for name in methods), values, present)


def _method_rows(group: _Group, wide: _Wide, confidence: float, shares: Floats) -> list[Row]:
    scored = ~np.isnan(wide.values)
    found = [mean_interval(wide.values[scored[:, m], m], confidence) for m in range(len(wide.methods))]
    ratings = group.rows.groupby("method")["n_ratings"].sum()
    rows: list[Row] = []
    for rank, m in enumerate(_ranking(found), start=1):
        n_missing = int(np.sum(wide.present[:, m] & ~scored[:, m]))
        n_absent = int(np.sum(~wide.present[:, m]))
        flags = _flags(
            (found[m].flag, bool(found[m].flag)),
            ("missing_scores", n_missing > 0),
            ("absent_units", n_absent > 0),
            ("tied", sum(abs(other.mean - found[m].mean) <= NEGLIGIBLE for other in found) > 1),
        )
        rows.append(
            group.head
            | {
                "method": wide.methods[m],
                "rank": rank,
                "n_units": found[m].n,
                "n_missing": n_missing,
                "n_absent": n_absent,
                "mean": found[m].mean,
                "sd": found[m].sd,
                "low": found[m].low,
                "high": found[m].high,
                "n_ratings": int(ratings[wide.methods[m]]),
                "p_first": shares[m],
                "flags": flags,
            }
        )
    return rows


def _ranking(found: Sequence[MeanInterval]) -> list[int]:
    """Return the methods' numbers, highest mean first; ties by number (methods go by name); null last."""
    means = np.round([interval.mean for interval in found], 12)
    return [int(m) for m in np.argsort(-np.where(np.isnan(means), -np.inf, means), kind="stable")]


def _flags(*named: tuple[str, bool]) -> str:
    return ";".join(name for name, raised in named if raised)


def _pair_rows(group: _Group, wide: _Wide, confidence: float) -> list[Row]:
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
    flags = _flags(
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


def _with_truth(table: pd.DataFrame, factors: tuple[str, ...]) -> pd.DataFrame:
    """Return the scores that are not oracle scores, with the column truth, where there is any."""
    if "scoring" not in factors:
        return table.iloc[:0]
    anchor = [*(f for f in factors if not _among(f, TRUTH_IGNORES)), "method", "unit", "description"]
    oracle = table[table["scoring"] == "oracle"]
    found = oracle.groupby(anchor)["estimate"].agg(["min", "max"]).reset_index()
    contradicting = found[found["max"] - found["min"] > 1e-9]
    if not contradicting.empty:
        raise AssayError(
            f"two oracle scores differ for {_named(contradicting, anchor)}; name the factor they differ by"
        )
    truth = found.rename(columns={"max": "truth"})[[*anchor, "truth"]]
    judged = table[table["scoring"] != "oracle"]
    return judged.merge(truth, on=anchor, how="left") if len(truth) else judged.iloc[:0]


def _error_rows(group: _Group) -> list[Row]:
    if group.rows["truth"].isna().all():
        return []
    by_method = [(str(method), rows) for method, rows in group.rows.groupby("method", sort=True)]
    return [
        group.head | {"method": method} | _error(rows) for method, rows in [(POOLED, group.rows), *by_method]
    ]


def _error(rows: pd.DataFrame) -> Row:
    truth, estimate = rows["truth"].to_numpy(), rows["estimate"].to_numpy()
    known = ~np.isnan(truth) & ~np.isnan(estimate)
    zero = known & (np.abs(truth) <= NEGLIGIBLE)
    used = known & ~zero
    ratios = np.abs(estimate - truth)[used] / np.abs(truth[used])
    flags = _flags(
        ("no_pair", not used.any()),
        ("zero_truth", bool(zero.any())),
        ("missing_scores", not known.all()),
    )
    return {
        "n_pairs": len(ratios),
        "n_zero": int(zero.sum()),
        "n_missing": int((~known).sum()),
        "rce": float(np.mean(ratios)) if len(ratios) else np.nan,
        "flags": flags,
    }
