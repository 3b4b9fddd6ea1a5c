"""Each explanation method against random texts by mixed models: what holds beyond these units and layers."""

from collections.abc import Sequence

import pandas as pd

from pipeline.statistics.cells import among, identity_factors, is_seed, kept_apart
from pipeline.statistics.mixed.table import joined, model_table

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
    means = scores.groupby([*by, "method", "unit"], sort=True)["estimate"].mean()
    table = means.reset_index()
    table = table.assign(
        place=joined(table, place),
        dataset=joined(table, [name for name in by if among(name, ("dataset",))]),
        sample=joined(table, [*place, "unit"]),
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
