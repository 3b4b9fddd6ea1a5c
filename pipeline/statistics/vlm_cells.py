"""The VLM track's scores by cell, and one bootstrap of samples for all explainers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipeline.errors import AssayError
from pipeline.seeds import generator
from pipeline.statistics.cells import described
from pipeline.statistics.intervals import Codes, Floats

QUESTIONS = "questions"


@dataclass(frozen=True)
class VlmCell:
    """One measure in one cell: values (S samples, E explainers), NaN where it is missing.

    key: the values of the factors. pool: the question set; a sample's id means the same sample in every
    cell of a pool. samples and explainers name the rows and columns, sorted.
    """

    key: tuple[str, ...]
    pool: str
    samples: tuple[str, ...]
    explainers: tuple[str, ...]
    values: Floats


@dataclass(frozen=True)
class Estimates:
    """The mean over cells of E columns' means: value, low and high (E,), and the resampled draws (B, E).

    n: values (E,). varied (E,): every cell with values has 2 or more, so that there is an interval.
    """

    value: Floats
    low: Floats
    high: Floats
    n: Codes
    varied: NDArray[np.bool_]
    draws: Floats


@dataclass(frozen=True)
class VlmLevel:
    """F in one cell, or in several that are averaged: a table (S, E) and counts (1 + B, S) a cell.

    names: the E explainers of all cells, sorted. counts: as `resamples` draws them.
    """

    cells: list[VlmCell]
    names: list[str]
    tables: list[Floats]
    counts: list[Floats]


def checked(
    table: pd.DataFrame,
    factors: Sequence[str],
    measures: Sequence[str],
    name: str,
    words: Sequence[str] = (),
) -> pd.DataFrame:
    """Return the (cell, explainer, sample) rows of a table, sorted, with these columns alone.

    measures are float64, words text, as the keys are. The table may be empty. Raises AssayError for
    missing columns, null keys, double rows and infinite measures.
    """
    keys = [*factors, "explainer", "sample_id"]
    columns = [*keys, *measures, *words]
    if missing := [column for column in columns if column not in table.columns]:
        raise AssayError(
            f"{name} lack the columns {', '.join(missing)}; they have {', '.join(table.columns)}"
        )
    for key in keys:
        if (null := table[key].isna()).any():
            row = int(np.flatnonzero(null)[0])
            raise AssayError(f"{name}: '{key}' is empty in row {row}; write a word such as 'none' there")
    types = dict.fromkeys([*keys, *words], str) | dict.fromkeys(measures, np.float64)
    found = table[columns].fillna(dict.fromkeys(words, "")).astype(types)
    if (double := found.duplicated(keys)).any():
        raise AssayError(f"{name}: {described(found[double], keys)} is there twice; keep one row")
    for measure in measures:
        if (infinite := np.isinf(found[measure])).any():
            raise AssayError(f"{name}: '{measure}' of {described(found[infinite], keys)} is infinite")
    return found.sort_values(keys, kind="stable", ignore_index=True)


Key = tuple[str, ...]


def parts(table: pd.DataFrame, factors: Sequence[str]) -> list[tuple[Key, pd.DataFrame]]:
    """Return each cell's key (its values of the factors) and rows, sorted by key."""
    grouped = table.groupby(list(factors), sort=True)
    return [(tuple(str(value) for value in key), rows) for key, rows in grouped]


def levels(table: pd.DataFrame, factors: Sequence[str]) -> list[tuple[dict[str, str], pd.DataFrame]]:
    """Return the head (level, factors) and rows of each level: of two or more cells all, then of each."""
    cells = [
        ({"level": "cell"} | dict(zip(factors, key, strict=True)), rows)
        for key, rows in parts(table, factors)
    ]
    together = [({"level": "overall"} | dict.fromkeys(factors, ""), table)]
    return [*(together if len(cells) > 1 else []), *cells]


def vlm_cells(table: pd.DataFrame, factors: Sequence[str], measure: str) -> list[VlmCell]:
    """Return one measure of a checked table as a VlmCell a cell, sorted by key."""
    return [_cell(key, rows, factors, measure) for key, rows in parts(table, factors)]


def _cell(key: tuple[str, ...], rows: pd.DataFrame, factors: Sequence[str], measure: str) -> VlmCell:
    sample, samples = pd.factorize(rows["sample_id"], sort=True)
    explainer, explainers = pd.factorize(rows["explainer"], sort=True)
    values = np.full((len(samples), len(explainers)), np.nan)
    values[sample, explainer] = rows[measure]
    pool = key[list(factors).index(QUESTIONS)] if QUESTIONS in factors else ""
    return VlmCell(key, pool, tuple(map(str, samples)), tuple(map(str, explainers)), values)


def explainers_of(cells: Sequence[VlmCell]) -> list[str]:
    """Return the names of all explainers of some cells, sorted."""
    return sorted({name for cell in cells for name in cell.explainers})


def columns_of(cell: VlmCell, names: Sequence[str]) -> Floats:
    """Return a cell's values with one column a name (S, len(names)): NaN where the cell lacks it."""
    table = pd.DataFrame(cell.values, columns=list(cell.explainers)).reindex(columns=list(names))
    return table.to_numpy(dtype=np.float64)


def resamples(cells: Sequence[VlmCell], n_bootstrap: int, rng: np.random.Generator) -> list[Floats]:
    """Return for each cell how often each of its samples counts, (1 + B, S): first once each, then B draws.

    A pool's samples are drawn with replacement, as many as it has. Its cells share the draw: what two
    models say of one question is not independent.
    """
    drawn: dict[str, pd.DataFrame] = {}
    for pool in sorted({cell.pool for cell in cells}):
        ids = sorted({sample for cell in cells if cell.pool == pool for sample in cell.samples})
        counts = rng.multinomial(len(ids), np.full(len(ids), 1 / len(ids)), n_bootstrap)
        drawn[pool] = pd.DataFrame(np.vstack([np.ones(len(ids)), counts]), columns=ids)
    return [drawn[cell.pool][list(cell.samples)].to_numpy(dtype=np.float64) for cell in cells]


def vlm_level(
    rows: pd.DataFrame,
    head: Mapping[str, str],
    factors: Sequence[str],
    n_bootstrap: int,
    seed: int,
) -> VlmLevel:
    """Return one of `levels` with its draws, which depend on its head, its samples and the seed alone."""
    cells = vlm_cells(rows, factors, "f")
    names = explainers_of(cells)
    rng = generator(seed, "vlm explainers", *head.values())
    tables = [columns_of(cell, names) for cell in cells]
    return VlmLevel(cells, names, tables, resamples(cells, n_bootstrap, rng))


def by_sample(level: VlmLevel, differences: Sequence[Floats]) -> list[Floats]:
    """Return what each of C columns of differences, a table (S, C) a cell, says of each sample that has it.

    What several cells say of one sample is averaged, so that a test counts it once.
    """
    named = [
        pd.DataFrame(values, index=pd.MultiIndex.from_product([[cell.pool], cell.samples]))
        for cell, values in zip(level.cells, differences, strict=True)
    ]
    means = pd.concat(named).groupby(level=[0, 1], sort=True).mean().to_numpy(dtype=np.float64)
    # Rounded, so that differences equal but for the last bits tie: ties and zeros decide ranks.
    return [np.round(column[~np.isnan(column)], 12) for column in means.T]


def estimates(tables: Sequence[Floats], counts: Sequence[Floats], confidence: float) -> Estimates:
    """Return the mean over cells of the columns' means of tables (S, E), with percentile intervals.

    counts: `resamples` (1 + B, S), a cell each. NaN enters no mean. A cell without a value of a column does
    not count for it, nor does it in a draw that holds none of its samples with one. Null intervals: where
    a cell has only one value, as it would add nothing to the width.
    """
    means = _mean_of_known(np.stack([_means(t, c) for t, c in zip(tables, counts, strict=True)]))
    n = np.stack([np.sum(~np.isnan(table), axis=0) for table in tables])
    varied = np.asarray(np.all(n != 1, axis=0) & np.any(n > 1, axis=0), dtype=np.bool_)
    low, high = np.full((2, means.shape[1]), np.nan)
    tails = [(1 - confidence) / 2, (1 + confidence) / 2]
    if varied.any() and len(means) > 1:
        low[varied], high[varied] = np.nanquantile(means[1:, varied], tails, axis=0)
    return Estimates(means[0], low, high, n.sum(axis=0), varied, means[1:])


def _means(values: Floats, counts: Floats) -> Floats:
    """Return the columns' means (B, E) of values (S, E) under counts (B, S); NaN where nothing counts."""
    known = ~np.isnan(values)
    return _ratio(counts @ np.where(known, values, 0.0), counts @ known)


def _mean_of_known(values: Floats) -> Floats:
    known = ~np.isnan(values)
    return _ratio(np.where(known, values, 0.0).sum(axis=0), known.sum(axis=0).astype(np.float64))


def _ratio(total: Floats, size: Floats) -> Floats:
    return np.where(size > 0, total / np.maximum(size, 1), np.nan)
