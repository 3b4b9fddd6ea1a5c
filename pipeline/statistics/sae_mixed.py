"""Each kind of SAE against untrained ones by mixed models: beyond these attributes and trainings."""

from collections.abc import Sequence

import pandas as pd

from pipeline.statistics.cells import among
from pipeline.statistics.mixed.table import joined, model_table

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
    of_dataset = [name for name in factors if among(name, ("dataset",))]
    table = attributes[["variant", "f1"]].assign(
        dataset=joined(attributes, of_dataset),
        layer=joined(attributes, [name for name in factors if name not in of_dataset]),
        run=joined(attributes, ["dictionary_size", "seed"]),
        sample=joined(attributes, [*of_dataset, "attribute"]),
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
