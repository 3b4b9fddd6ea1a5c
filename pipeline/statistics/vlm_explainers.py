"""Which explainer has the highest F: its mean over samples, beside Random's, and how firm its rank is."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pandas as pd

from pipeline.statistics.cells import NEGLIGIBLE, joined_flags
from pipeline.statistics.intervals import Codes, Floats
from pipeline.statistics.paired import holm, signed_rank
from pipeline.statistics.ranking import common_units, ranking
from pipeline.statistics.vlm_cells import (
    Estimates,
    VlmLevel,
    by_sample,
    checked,
    estimates,
    levels,
    vlm_level,
)
from pipeline.synergy.fsyn import DIVIDEND_FLOOR

REFERENCE = "random"
MEANS = {
    "mean_dividend": "dividend",
    "tie_share": "patch_tie_share",
    "n_states": "n_states",
    "image_auc_del": "image_auc_del",
    "text_auc_del": "text_auc_del",
    "image_srg": "image_srg",
    "text_srg": "text_srg",
    "pointing": "pointing",
    "pointing_chance": "pointing_chance",
    "iou": "iou",
}
COLUMNS = (
    "rank", "explainer", "n_samples", "n_missing", "mean_f", "low", "high", "over_random",
    "over_random_low", "over_random_high", "p_random", "p_first", "n_common", "mean_common",
    "ratio_of_means", *MEANS, "n_masks", "flags",
)  # fmt: skip


def explainer_table(
    scores: pd.DataFrame,
    factors: Sequence[str],
    *,
    confidence: float = 0.95,
    n_bootstrap: int = 2000,
    seed: int = 0,
) -> pd.DataFrame:
    """Return a row a cell and explainer, by rank; before them, of two or more cells, their means ("overall").

    scores: one row a (factors, explainer, sample_id); a NaN f is counted in n_missing and enters no mean,
    nor does a sample for which an explainer has no row. The order of the rows does not matter.
    rank, p_first, n_common and mean_common are over the samples that every explainer with any F has; ties
    go by name; without such a sample, or without F, they are null. mean_f and the measures are over the
    explainer's own samples, pointing and iou over those with a mask (n_masks).
    Intervals are percentiles over resamples of whole samples, the same ones for all explainers; null where
    a cell has one value only. p_first: share of the resamples in which it has the highest mean, ties shared.
    over_random, its interval and p_random are over the samples that both have, and null for the explainer
    "random" and without it; p_random: Wilcoxon's signed-rank test (Pratt), adjusted by Holm over the rows
    of one cell. ratio_of_means: mean_f / mean_dividend, null where the latter is below `DIVIDEND_FLOOR`.
    Overall, a value is the mean over the cells that have it (a rank counts cells where every explainer has
    a common sample), counts are sums, and factors read "". A sample that several cells ask is drawn for all
    of them at once, and the test takes its mean difference, once: it weighs samples alike, the means weigh
    cells alike. A cell is not drawn anew: nothing here says what another model or question set would give.
    flags: those of scores as "name: n of m" rows, then missing ("n of m" samples), absent_cells, no_score,
    one_sample (in a cell: no interval), constant, common_samples_only, no_common_sample and tied. Raises
    AssayError for missing columns, null keys, double rows and infinite scores.
    """
    table = checked(scores, factors, ["f", *MEANS.values()], "scores", words=["flags"])
    found = [
        _rows(own, vlm_level(own, head, factors, n_bootstrap, seed), factors, confidence).assign(**head)
        for head, own in levels(table, factors)
    ]
    columns = ["level", *factors, *COLUMNS]
    empty = pd.DataFrame(columns=columns)
    whole = pd.concat(found, ignore_index=True)[columns] if found else empty
    return whole.astype({"rank": "Int64"})


def _rows(rows: pd.DataFrame, level: VlmLevel, factors: Sequence[str], confidence: float) -> pd.DataFrame:
    """Return the rows of one level, without its head, by rank."""
    names = level.names
    own = estimates(level.tables, level.counts, confidence)
    common = estimates(_common(level.tables), level.counts, confidence)
    over = _over_reference(level)
    above = estimates(over, level.counts, confidence)
    measures = _measures(rows, factors).loc[names]
    n_missing = _n_missing(level)
    order = ranking(common.value)
    found = pd.DataFrame(
        {
            "explainer": names,
            "n_samples": own.n,
            "n_missing": n_missing,
            "mean_f": own.value,
            "low": own.low,
            "high": own.high,
            "over_random": above.value,
            "over_random_low": above.low,
            "over_random_high": above.high,
            "p_random": holm(np.array([signed_rank(each) for each in by_sample(level, over)])),
            "p_first": _first_shares(common),
            "n_common": common.n,
            "mean_common": common.value,
            "ratio_of_means": _ratios(own.value, measures["mean_dividend"].to_numpy(dtype=np.float64)),
            **{name: measures[name].to_numpy() for name in (*MEANS, "n_masks")},
            "flags": _flags(rows, level, own, common),
        }
    ).iloc[order]
    ranks = np.arange(1, len(names) + 1, dtype=np.float64)
    return found.assign(rank=np.where(found["mean_common"].notna(), ranks, np.nan))


def _common(tables: Sequence[Floats]) -> list[Floats]:
    """Return the tables with NaN where a sample lacks the F of any explainer that has one somewhere."""
    shared = common_units(np.concatenate(tables))
    ends = np.cumsum([len(table) for table in tables])[:-1]
    return [
        np.where(kept[:, None], table, np.nan)
        for table, kept in zip(tables, np.split(shared, ends), strict=True)
    ]


def _over_reference(level: VlmLevel) -> list[Floats]:
    """Return every explainer's F minus Random's, sample by sample; NaN for Random itself."""
    found = []
    for table in level.tables:
        over = np.full_like(table, np.nan)
        if REFERENCE in level.names:
            reference = level.names.index(REFERENCE)
            over = table - table[:, [reference]]
            over[:, reference] = np.nan
        found.append(over)
    return found


def _first_shares(common: Estimates) -> Floats:
    """Return the share of draws (E,) in which an explainer's common mean is highest; ties share a draw."""
    draws = common.draws[:, common.varied]
    draws = draws[~np.isnan(draws).any(axis=1)]
    shares = np.full(len(common.value), np.nan)
    if draws.size:
        first = draws >= draws.max(axis=1, keepdims=True) - NEGLIGIBLE
        shares[common.varied] = np.mean(first / first.sum(axis=1, keepdims=True), axis=0)
    return shares


def _measures(rows: pd.DataFrame, factors: Sequence[str]) -> pd.DataFrame:
    """Return the means over cells of an explainer's means over samples, and n_masks, by explainer."""
    known = rows.assign(pointing_chance=rows["pointing_chance"].where(rows["pointing"].notna()))
    by_cell = known.groupby([*factors, "explainer"])[list(MEANS.values())].mean()
    means = by_cell.groupby("explainer").mean().set_axis(list(MEANS), axis=1)
    return means.assign(n_masks=known.groupby("explainer")["pointing"].count())


def _ratios(mean_f: Floats, mean_dividend: Floats) -> Floats:
    usable = np.abs(mean_dividend) >= DIVIDEND_FLOOR
    return np.where(usable, mean_f / np.where(usable, mean_dividend, 1.0), np.nan)


def _n_missing(level: VlmLevel) -> Codes:
    """Return how many samples of the cells that an explainer is in have no F of it (E,)."""
    own = np.array([[name in cell.explainers for name in level.names] for cell in level.cells])
    missing = np.array([np.isnan(table).sum(axis=0) for table in level.tables])
    return np.asarray(np.sum(missing * own, axis=0), dtype=np.int64)


def _flags(rows: pd.DataFrame, level: VlmLevel, own: Estimates, common: Estimates) -> list[str]:
    raised = {str(name): list(flags) for name, flags in rows.groupby("explainer")["flags"]}
    n_missing = _n_missing(level)
    found = []
    for e, name in enumerate(level.names):
        counted = _counted(raised[name])
        n_absent = sum(name not in cell.explainers for cell in level.cells)
        n_all = int(own.n[e] + n_missing[e])
        found.append(
            joined_flags(
                (counted, bool(counted)),
                (f"missing: {n_missing[e]} of {n_all}", n_missing[e] > 0),
                (f"absent_cells: {n_absent} of {len(level.cells)}", n_absent > 0),
                ("no_score", own.n[e] == 0),
                ("one_sample", own.n[e] > 0 and not own.varied[e]),
                ("constant", own.n[e] > 1 and _constant(level.tables, e)),
                ("common_samples_only", 0 < common.n[e] < own.n[e]),
                ("no_common_sample", own.n[e] > 0 and common.n[e] == 0),
                ("tied", bool(np.sum(np.abs(common.value - common.value[e]) <= NEGLIGIBLE) > 1)),
            )
        )
    return found


def _constant(tables: Sequence[Floats], e: int) -> bool:
    """Return whether an explainer has one F in every cell that it scored; the interval has no width."""
    known = [table[~np.isnan(table[:, e]), e] for table in tables]
    return all(np.ptp(values) <= NEGLIGIBLE for values in known if len(values))


def _counted(flags: Sequence[str]) -> str:
    """Return the flags of an explainer's rows as "name: n of m", by name."""
    counts = Counter(name for words in flags for name in _names(words))
    return ";".join(f"{name}: {counts[name]} of {len(flags)}" for name in sorted(counts))


def _names(words: str) -> set[str]:
    """Return the names of a row's flags, without what follows a colon: a message may hold ";" too."""
    names: set[str] = set()
    for part in words.split(";"):
        name, colon, _ = part.partition(":")
        names |= {name.strip()} - {""}
        if colon:
            break
    return names
