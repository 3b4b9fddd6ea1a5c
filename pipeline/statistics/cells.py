"""Groups of a sweep's scores: each cell, and the rows that pool cells.

A *cell* is one combination of the factors of a sweep. Some factors say what is judged (model,
layer, dataset, kind of unit), others how (`PROTOCOL`). The `overall` rows pool the cells of what is
judged and keep the protocols apart: the same unit under two samplers is one unit, not two. Neurons and
the latents of each SAE stay apart as well. A seed factor makes replicates of the same units, so it is
pooled and never counts as another unit.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

Row = dict[str, object]

PROTOCOL = ("aggregation", "crowd", "estimator", "evaluation", "numerics", "sampler", "scorer", "scoring")
KINDS = ("unit_kind", "sae")
POOLED = "all"
NEGLIGIBLE = 1e-12


@dataclass(frozen=True)
class Group:
    """Rows that are compared with each other; head is the level and the factors of their result."""

    head: Row
    rows: pd.DataFrame


def groups(table: pd.DataFrame, factors: Sequence[str]) -> Iterator[Group]:
    """Yield an overall group a protocol and kind of unit, then a group a cell, each sorted by its factors."""
    kept = kept_apart(factors)
    for key, rows in _parts(table, kept):
        cell = dict.fromkeys(factors, POOLED) | dict(zip(kept, key, strict=True))
        yield Group({"level": "overall", **cell}, rows)
    for key, rows in _parts(table, list(factors)):
        yield Group({"level": "cell", **dict(zip(factors, key, strict=True))}, rows)


def kept_apart(factors: Sequence[str]) -> list[str]:
    """Return the factors that no row pools: how units are judged, and of what kind; without the seeds."""
    return [name for name in factors if among(name, (*PROTOCOL, *KINDS)) and not is_seed(name)]


def identity_factors(factors: Sequence[str]) -> list[str]:
    """Return the factors that say, with its number, which unit a row is about."""
    return [name for name in factors if not among(name, PROTOCOL) and not is_seed(name)]


def is_seed(factor: str) -> bool:
    """Return whether a factor makes replicates: its last part is "seed" or ends in "_seed".

    A seed of the model (untrained weights) does not: another network has other units.
    """
    last = factor.split(".")[-1]
    return (last == "seed" or last.endswith("_seed")) and not among(factor, ("model",))


def among(factor: str, names: Sequence[str]) -> bool:
    """Return whether a factor belongs to one of these config groups."""
    return factor.split(".")[0] in names


def joined_flags(*named: tuple[str, bool]) -> str:
    """Return the raised flags, joined by ";" in the order given."""
    return ";".join(name for name, raised in named if raised)


def described(rows: pd.DataFrame, keys: Sequence[str]) -> str:
    """Return the keys of the first row in words, for a message."""
    return " ".join(f"{key}={rows.iloc[0][key]}" for key in keys)


def _parts(table: pd.DataFrame, by: list[str]) -> Iterator[tuple[tuple[str, ...], pd.DataFrame]]:
    if table.empty:
        return
    if not by:
        yield (), table
        return
    for key, rows in table.groupby(by, sort=True):
        yield tuple(str(value) for value in key), rows
