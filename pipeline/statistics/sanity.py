"""Does a metric tell a trained SAE from a frozen and from a random one? (spec: sanity table)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipeline.seeds import generator
from pipeline.statistics.intervals import fewest_values
from pipeline.statistics.sae_baselines import UNTRAINED, baselines

ALL = "all trained"
CHUNK = 256
"""Bootstrap draws at once."""


@dataclass(frozen=True)
class Measured:
    """One metric on every SAE of a sweep.

    items: a Series for each row of the table of SAEs: the metric's values by item (NaN: undefined), None
    where it was not computed. shared: the items (attributes, pairs) are the same ones for every SAE of a
    context, so differences are paired by item; else (latents) each SAE has its own.
    unit: what is drawn anew in the bootstrap.
    """

    name: str
    unit: str
    items: Sequence[pd.Series | None]
    shared: bool = True


def sanity_table(
    saes: pd.DataFrame,
    measured: Sequence[Measured],
    factors: Sequence[str],
    *,
    confidence: float = 0.95,
    n_bootstrap: int = 2000,
    seed: int = 0,
) -> pd.DataFrame:
    """Return a row a metric and group (each variant, and all trained SAEs together).

    Columns: metric, variant, n_saes, trained, frozen, random (means), and for both baselines the mean
    difference with its percentile interval (over_frozen, over_frozen_low, over_frozen_high, ...), n_items,
    resampled, verdict. A metric passes where both intervals lie above 0, and fails where one does not;
    "unknown" says that a baseline is missing or that there are fewer items than such an interval needs
    (`fewest_values`). Each SAE is compared with the
    baselines of its own dictionary size and density; an item's differences are averaged over SAEs first.
    """
    found = {kind: baselines(saes, kind, factors) for kind in UNTRAINED}
    rows = [
        _row(saes, metric, group, found, factors, confidence, n_bootstrap, seed)
        for metric in measured
        for group in _groups(saes)
    ]
    return pd.DataFrame(rows)


def _groups(saes: pd.DataFrame) -> list[str]:
    trained = [name for name in dict.fromkeys(saes["variant"]) if name not in UNTRAINED]
    return [ALL, *trained] if len(trained) > 1 else trained


def _row(
    saes: pd.DataFrame,
    metric: Measured,
    group: str,
    found: dict[str, list[NDArray[np.intp]]],
    factors: Sequence[str],
    confidence: float,
    n_bootstrap: int,
    seed: int,
) -> dict[str, object]:
    in_group = ~saes["variant"].isin(UNTRAINED) if group == ALL else saes["variant"] == group
    chosen = _computed(metric, np.flatnonzero(in_group.to_numpy()))
    row: dict[str, object] = {"metric": metric.name, "variant": group, "n_saes": len(chosen)}
    row["trained"] = _mean([_level(metric, [i]) for i in chosen])
    n_items, enough = 0, True
    for kind in UNTRAINED:
        rng = generator(seed, "sanity", metric.name, group, kind)
        cells = [(i, rows) for i in chosen if len(rows := _computed(metric, found[kind][i]))]
        row[kind] = _mean([_level(metric, rows) for _, rows in cells])
        draws = _differences(saes, metric, cells, factors)
        n_items = max(n_items, len(draws.values))
        enough = enough and draws.n_fewest >= fewest_values(confidence)
        low, high = draws.interval(confidence, n_bootstrap, rng)
        row |= {f"over_{kind}": draws.estimate, f"over_{kind}_low": low, f"over_{kind}_high": high}
    return row | {
        "n_items": n_items,
        "resampled": metric.unit,
        "verdict": _verdict(row) if enough else "unknown",
    }


def _verdict(row: dict[str, object]) -> str:
    lows = np.array([row[f"over_{kind}_low"] for kind in UNTRAINED], dtype=np.float64)
    if np.any(lows <= 0):
        return "fail"
    return "unknown" if np.isnan(lows).any() else "pass"


def _computed(metric: Measured, rows: NDArray[np.intp]) -> list[int]:
    return [int(i) for i in rows if metric.items[i] is not None]


def _level(metric: Measured, rows: Sequence[int]) -> float:
    return _mean([_mean(_items(metric, i).to_numpy(dtype=np.float64)) for i in rows])


def _items(metric: Measured, i: int) -> pd.Series:
    series = metric.items[i]
    assert series is not None
    return series


def _mean(values: Sequence[float] | NDArray[np.float64]) -> float:
    known = np.asarray(values, dtype=np.float64)
    known = known[~np.isnan(known)]
    return float(known.mean()) if len(known) else float("nan")


@dataclass(frozen=True)
class _Paired:
    """Differences by item; their mean is the estimate."""

    values: NDArray[np.float64]

    @property
    def n_fewest(self) -> int:
        return len(self.values)

    @property
    def estimate(self) -> float:
        return _mean(self.values)

    def interval(self, confidence: float, n_bootstrap: int, rng: np.random.Generator) -> tuple[float, float]:
        if len(self.values) < 2:
            return float("nan"), float("nan")
        return _percentiles(resampled_means(self.values, n_bootstrap, rng), confidence)


@dataclass(frozen=True)
class _Unpaired:
    """For each SAE its own items and those of its baselines."""

    pairs: Sequence[tuple[NDArray[np.float64], Sequence[NDArray[np.float64]]]]

    @property
    def values(self) -> NDArray[np.float64]:
        return np.concatenate([items for items, _ in self.pairs]) if self.pairs else np.array([])

    @property
    def n_fewest(self) -> int:
        """The items of the SAE that has fewest of them."""
        return min((len(x) for items, base in self.pairs for x in (items, *base)), default=0)

    @property
    def estimate(self) -> float:
        return _mean([_mean(items) - _mean([_mean(b) for b in base]) for items, base in self.pairs])

    def interval(self, confidence: float, n_bootstrap: int, rng: np.random.Generator) -> tuple[float, float]:
        if not self.pairs or any(len(x) < 2 for items, base in self.pairs for x in (items, *base)):
            return float("nan"), float("nan")
        total = np.zeros(n_bootstrap)
        for items, base in self.pairs:
            of_base = np.mean([resampled_means(b, n_bootstrap, rng) for b in base], axis=0)
            total += resampled_means(items, n_bootstrap, rng) - of_base
        return _percentiles(total / len(self.pairs), confidence)


def _differences(
    saes: pd.DataFrame, metric: Measured, cells: Sequence[tuple[int, list[int]]], factors: Sequence[str]
) -> _Paired | _Unpaired:
    if not metric.shared:
        known = [(_known(_items(metric, i)), [_known(_items(metric, b)) for b in rows]) for i, rows in cells]
        return _Unpaired(known)
    by_item = [_by_item(saes, metric, i, rows, factors) for i, rows in cells]
    if not by_item:
        return _Paired(np.array([]))
    together = pd.concat(by_item, axis=1).mean(axis=1).dropna()
    return _Paired(together.to_numpy(dtype=np.float64))


def _by_item(
    saes: pd.DataFrame, metric: Measured, i: int, rows: Sequence[int], factors: Sequence[str]
) -> pd.Series:
    """Return one SAE's differences by item; items of other contexts have other names."""
    base = pd.concat([_items(metric, b) for b in rows], axis=1).mean(axis=1)
    difference = _items(metric, i) - base
    context = "\x1f".join(str(saes.loc[i, name]) for name in factors)
    cell = "" if metric.unit != "SAEs" else f"\x1f{i}"
    difference.index = pd.Index([f"{context}{cell}\x1f{item}" for item in difference.index])
    return difference


def _known(series: pd.Series) -> NDArray[np.float64]:
    values = np.asarray(series, dtype=np.float64)
    return np.asarray(values[~np.isnan(values)])


def resampled_means(
    values: NDArray[np.float64], n_bootstrap: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return the means (n_bootstrap,) of values (n,) drawn anew with replacement."""
    starts = range(0, n_bootstrap, CHUNK)
    sizes = [min(CHUNK, n_bootstrap - start) for start in starts]
    return np.concatenate(
        [values[rng.integers(len(values), size=(size, len(values)))].mean(axis=1) for size in sizes]
    )


def _percentiles(means: NDArray[np.float64], confidence: float) -> tuple[float, float]:
    tail = (1 - confidence) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return float(low), float(high)
