"""Each kind of SAE against untrained ones by mixed models: beyond these attributes and trainings."""

from collections.abc import Sequence

import pandas as pd

from pipeline.statistics.cells import among
from pipeline.statistics.mixed.table import model_table

GROUPS = {"run": "training", "layer": "layer", "dataset": "dataset"}
REFERENCES = ("frozen", "random")


def mixed_table(
    attributes: pd.DataFrame, factors: Sequence[str], *, variant: str = "default", confidence: float = 0.95
) -> pd.DataFrame:
    """Return each SAE variant's F1 of an attribute over that of frozen SAEs, highest first.

    attributes: one row a (factors, variant, dictionary_size, seed, attribute) with f1. run: dictionary size
    and seed, so that with the variant it is one SAE; see `mixed.table.model_table` for the columns. Without
    frozen SAEs random ones are the reference.
    """
    names = {name: _joined(attributes, [f for f in factors if among(f, (name,))]) for name in ("dataset",)}
    layer = _joined(attributes, [f for f in factors if not among(f, ("dataset",))])
    table = attributes[["variant", "f1"]].assign(
        dataset=names["dataset"],
        layer=layer,
        run=_joined(attributes, ["dictionary_size", "seed"]),
        sample=names["dataset"] + "\x1f" + attributes["attribute"].astype(str),
    )
    return model_table(
        table,
        score="f1",
        method="variant",
        sample="sample",
        groups=GROUPS,
        references=REFERENCES,
        variant=variant,
        confidence=confidence,
    )


def _joined(table: pd.DataFrame, columns: Sequence[str]) -> pd.Series:
    parts = [table[name].astype(str) for name in columns]
    return parts[0].str.cat(parts[1:], sep="\x1f") if parts else pd.Series("", index=table.index)
