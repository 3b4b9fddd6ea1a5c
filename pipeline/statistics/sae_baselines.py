"""Which untrained SAEs stand beside a trained one, and what training adds (spec: dMATCHScore)."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

UNTRAINED = ("frozen", "random")


def baselines(saes: pd.DataFrame, kind: str, factors: Sequence[str]) -> list[NDArray[np.intp]]:
    """Return for each row of `saes` the rows of its baselines of one kind ("frozen" or "random").

    A baseline has the same value of every factor and the same dictionary size, and of its densities the
    one nearest to the row's (`density`: latents that fire on an image; the lower one on ties). Seeds vary.
    Untrained rows have none.
    """
    same = [*factors, "dictionary_size"]
    candidates = saes[saes["variant"] == kind]
    return [_nearest(row, candidates, same) for _, row in saes.iterrows()]


def _nearest(row: pd.Series, candidates: pd.DataFrame, same: Sequence[str]) -> NDArray[np.intp]:
    none = np.array([], dtype=np.intp)
    if row["variant"] in UNTRAINED:
        return none
    fits = candidates[np.logical_and.reduce([candidates[name] == row[name] for name in same])]
    if fits.empty:
        return none
    densities = np.sort(fits["density"].unique())
    nearest = densities[np.argmin(np.abs(densities - row["density"]))]
    return np.asarray(fits.index[fits["density"] == nearest], dtype=np.intp)


def with_dmatch(saes: pd.DataFrame, factors: Sequence[str]) -> pd.DataFrame:
    """Add dmatch_score, frozen_spread and n_frozen: MATCHScore minus the mean of the frozen seeds.

    frozen_spread: sd of the frozen seeds' MATCHScore (NaN for fewer than two). Without a frozen SAE of
    the same dictionary size dmatch_score is NaN and n_frozen 0.
    """
    scores = saes["match_score"].to_numpy(dtype=np.float64)
    frozen = baselines(saes, "frozen", factors)
    means = [scores[rows].mean() if len(rows) else np.nan for rows in frozen]
    spreads = [scores[rows].std(ddof=1) if len(rows) > 1 else np.nan for rows in frozen]
    return saes.assign(
        dmatch_score=scores - np.array(means), frozen_spread=spreads, n_frozen=[len(rows) for rows in frozen]
    )
