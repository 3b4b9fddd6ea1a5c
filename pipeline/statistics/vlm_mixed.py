"""Each explainer against random by mixed models: what holds beyond these samples, models and questions.

Source: arXiv 2605.22168 (the model "paper"); pipeline/statistics/mixed says what "default" adds and why.
"""

from collections.abc import Sequence

import pandas as pd

from pipeline.statistics.mixed.defaults import formula_for
from pipeline.statistics.mixed.fitting import fit
from pipeline.statistics.vlm_cells import parts
from pipeline.statistics.vlm_explainers import REFERENCE

GROUPS = ("vlm", "questions")
"""Factors that are drawn from many; every other one gets models of its own."""
MODELS = ("default", "paper")
COLUMNS = ("model", "explainer", "estimate", "std_error", "df", "t", "p", "p_holm", "low", "high")
ASIDE = ("formula", "singular", "notes")


def mixed_table(scores: pd.DataFrame, factors: Sequence[str], *, confidence: float = 0.95) -> pd.DataFrame:
    """Return each explainer's F over that of "random" by each of `MODELS`: a row a model and explainer.

    scores: one row a (factors, explainer, sample_id) with f; NaN is left out and counted in notes. p_holm:
    over the explainers of one model. A sample is one of its questions, so models that answer the same one
    share it. Factors but `GROUPS` are columns: each of their combinations has models of its own. Without
    "random", or with it alone, the table is empty.
    """
    apart = [name for name in factors if name not in GROUPS]
    columns = [*apart, *COLUMNS, *ASIDE]
    found = [
        _fitted(rows, model, confidence).assign(**dict(zip(apart, key, strict=True)))
        for key, rows in (parts(scores, apart) if apart else [((), scores)])
        for model in MODELS
        if {REFERENCE} < {*rows["explainer"]}
    ]
    return pd.concat(found, ignore_index=True)[columns] if found else pd.DataFrame(columns=columns)


def _fitted(rows: pd.DataFrame, model: str, confidence: float) -> pd.DataFrame:
    named = rows[["f", "explainer", *GROUPS]].assign(sample=rows["questions"] + "\x1f" + rows["sample_id"])
    chosen = formula_for(named, "f", "explainer", "sample", GROUPS, model)
    found = fit(named, chosen.formula, REFERENCE, confidence)
    table = found.against_reference().rename(columns={"left": "explainer", "p_adjusted": "p_holm"})
    return table.assign(
        model=model,
        formula=chosen.formula,
        singular=found.singular,
        notes=" ".join([*chosen.notes, *found.notes]),
    )
