"""Each explanation method against random texts by mixed models: what holds beyond these units and layers."""

from collections.abc import Sequence

import pandas as pd

from pipeline.statistics.cells import among, identity_factors, is_seed, kept_apart
from pipeline.statistics.mixed.table import model_table

GROUPS = {"place": "layer", "dataset": "dataset"}


def mixed_table(
    scores: pd.DataFrame, factors: Sequence[str], *, variant: str = "default", confidence: float = 0.95
) -> pd.DataFrame:
    """Return each method's score over that of "random", highest first: see `mixed.table.model_table`.

    scores: one row a (factors, method, unit) with estimate. A unit is one of its layer (columns that say
    which network, layer and latents); two datasets judge the same unit. Replicates (seeds) are averaged
    first. How units are judged, and of what kind they are, stays apart: each has models of its own.
    """
    place = [name for name in identity_factors(factors) if not among(name, ("dataset",))]
    apart = kept_apart(factors)
    by = [name for name in factors if not is_seed(name)]
    table = scores.groupby([*by, "method", "unit"], as_index=False, sort=True)["estimate"].mean()
    table = table.assign(
        place=_joined(table, place),
        dataset=_joined(table, [name for name in by if among(name, ("dataset",))]),
        sample=_joined(table, [*place, "unit"]),
    )
    return model_table(
        table,
        score="estimate",
        method="method",
        sample="sample",
        groups=GROUPS,
        apart=apart,
        variant=variant,
        confidence=confidence,
    )


def _joined(table: pd.DataFrame, columns: Sequence[str]) -> pd.Series:
    """Return the values of some columns as one name; without columns, one name for all."""
    parts = [table[name].astype(str) for name in columns]
    return parts[0].str.cat(parts[1:], sep="\x1f") if parts else pd.Series("", index=table.index)
