"""Each explainer against random by mixed models: what holds beyond these samples, models and questions.

Source: arXiv 2605.22168 (the model "paper"); pipeline/statistics/mixed/defaults says what others add and why.
"""

from collections.abc import Sequence

import pandas as pd

from pipeline.statistics.mixed.table import joined, model_table
from pipeline.statistics.vlm_explainers import REFERENCE

GROUPS = {"vlm": "model", "questions": "question set"}
"""Factors that are drawn from many, in words; every other one gets models of its own."""


def mixed_table(
    scores: pd.DataFrame, factors: Sequence[str], *, variant: str = "default", confidence: float = 0.95
) -> pd.DataFrame:
    """Return each explainer's F over that of "random", highest first: see `mixed.table.model_table`.

    scores: one row a (factors, explainer, sample_id) with f. A sample is one of its questions, so models that
    answer the same one share it. Factors but `GROUPS` are columns: each of their combinations has models of
    its own, and none where "random" is missing.
    """
    apart = [name for name in factors if name not in GROUPS]
    table = scores[[*factors, "explainer", "f"]].assign(
        sample=scores["questions"] + "\x1f" + scores["sample_id"]
    )
    cell = joined(table, apart)
    return model_table(
        table[cell.isin(cell[table["explainer"] == REFERENCE])],
        score="f",
        method="explainer",
        sample="sample",
        groups=GROUPS,
        apart=apart,
        references=(REFERENCE,),
        variant=variant,
        confidence=confidence,
    )
