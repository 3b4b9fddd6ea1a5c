"""MATCHScore against the number of latents of a coalition that count."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from pipeline.report.sae_drawing import IDENTITY, Series, factors_of
from pipeline.report.sae_score_rows import DMATCH, MATCH, Curves, draw_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HEADLINE_BETA = 0.5
"""Where the tables do not tell: the paper's."""


def draw_k_curves(tables: Mapping[str, pd.DataFrame], png: Path, svg: Path) -> None:
    """Draw MATCHScore over dMATCHScore against k; a line is a mean over sizes and seeds, a band the range.

    tables: those of the sae_comparison stage, `k_sweep` and `saes` of which are read. One beta is drawn, see
    `at_headline`.
    """
    rows, beta = at_headline(tables["k_sweep"], tables["saes"])
    caption = f"k: latents of a coalition that count; {beta}\nline: mean over sizes and seeds, band: range"
    curves = Curves(_draw_series, _scale, an_sae=_first_k)
    draw_rows(rows, (MATCH, DMATCH), curves, caption, png, svg)


def at_headline(k_sweep: pd.DataFrame, saes: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Return the rows of the headline's beta, and in words which it is.

    The beta is the one that `saes` tells in a column `beta`, or the factor matching.beta, or else 0.5; of
    the betas that an SAE was matched at, the nearest (the lower one on ties). Rows of a matcher that knows no
    beta (NaN) are all kept.
    """
    names = [*factors_of(k_sweep), *IDENTITY]
    distance = (k_sweep["beta"] - _wanted(k_sweep, saes)).abs()
    nearest = distance.groupby([k_sweep[name] for name in names], dropna=False).transform("min")
    near = k_sweep[distance == nearest]
    lowest = near.groupby(names, dropna=False)["beta"].transform("min")
    kept = pd.concat([near[near["beta"] == lowest], k_sweep[k_sweep["beta"].isna()]]).sort_index()
    found = sorted(kept["beta"].dropna().unique())
    words = "beta = " + " or ".join(f"{beta:g}" for beta in found) if found else "the matcher knows no beta"
    return kept, words


def _wanted(k_sweep: pd.DataFrame, saes: pd.DataFrame) -> pd.Series:
    if "beta" in saes:
        names = [*factors_of(k_sweep), *IDENTITY]
        told = saes[[*names, "beta"]].drop_duplicates(names).rename(columns={"beta": "wanted"})
        wanted = k_sweep[names].merge(told, on=names, how="left")["wanted"].fillna(HEADLINE_BETA)
        return pd.Series(wanted.to_numpy(dtype=np.float64), index=k_sweep.index)
    if "matching.beta" in k_sweep:
        return k_sweep["matching.beta"].astype(float)
    return pd.Series(HEADLINE_BETA, index=k_sweep.index)


def _scale(axes: "Axes") -> None:
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def _first_k(rows: pd.DataFrame) -> pd.DataFrame:
    first: pd.DataFrame = rows[rows["k"] == rows["k"].min()]
    return first


def _draw_series(axes: "Axes", series: Series, rows: pd.DataFrame, column: str, shift: float) -> None:
    by_k = rows.groupby("k")[column].agg(["mean", "min", "max"])
    look = series.look
    k = by_k.index.to_numpy(dtype=np.float64)
    axes.fill_between(k, by_k["min"], by_k["max"], color=look.colour, alpha=0.12, linewidth=0, zorder=1)
    axes.plot(
        k,
        by_k["mean"].to_numpy(dtype=np.float64),
        color=look.colour,
        marker=look.marker,
        ls=series.dashes,
        lw=1.7,
        ms=4.5,
        mfc="white" if look.hollow else look.colour,
        zorder=3,
    )
