"""Each explainer against random by mixed models: what holds beyond these samples, models and questions.

Source: arXiv 2605.22168 (the model "paper"); pipeline/statistics/mixed/defaults says what others add and why.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from pipeline.errors import AssayError
from pipeline.statistics.mixed.defaults import VARIANTS, Chosen, formula_for
from pipeline.statistics.mixed.fitting import fit
from pipeline.statistics.vlm_cells import parts
from pipeline.statistics.vlm_explainers import REFERENCE

GROUPS = {"vlm": "model", "questions": "question set"}
"""Factors that are drawn from many, in words; every other one gets models of its own."""
PAPER = "paper"
COLUMNS = ("model", "explainer", "estimate", "std_error", "df", "t", "p", "p_holm", "low", "high")
ASIDE = ("formula", "same_as_paper", "singular", "notes")
ADVICE = "; it can be a fixed factor instead (stats=fixed)"


def mixed_table(
    scores: pd.DataFrame, factors: Sequence[str], *, variant: str = "default", confidence: float = 0.95
) -> pd.DataFrame:
    """Return each explainer's F over that of "random", highest first, by the model of a variant.

    scores: one row a (factors, explainer, sample_id) with f; NaN is left out and counted in notes. p_holm:
    over the explainers of one model. A sample is one of its questions, so models that answer the same one
    share it. same_as_paper: the formula is that of "paper"; else the rows of "paper" come after. Factors but
    `GROUPS` are columns: each of their combinations has models of its own. Without "random", or with it
    alone, the table is empty. Raises AssayError for a variant that is not in `VARIANTS`.
    """
    if variant not in VARIANTS:
        raise AssayError(f"variant {variant!r} is unknown; there are {', '.join(VARIANTS)}")
    apart = [name for name in factors if name not in GROUPS]
    columns = [*apart, *COLUMNS, *ASIDE]
    found = [
        table.assign(**dict(zip(apart, key, strict=True)))
        for key, rows in (parts(scores, apart) if apart else [((), scores)])
        if {REFERENCE} < {*rows["explainer"]}
        for table in _models(rows, variant, confidence)
    ]
    return pd.concat(found, ignore_index=True)[columns] if found else pd.DataFrame(columns=columns)


def _models(rows: pd.DataFrame, variant: str, confidence: float) -> list[pd.DataFrame]:
    """Return the rows of the variant, and those of "paper" where its formula is another."""
    named = rows[["f", "explainer", *GROUPS]].assign(sample=rows["questions"] + "\x1f" + rows["sample_id"])
    chosen = {
        model: formula_for(named, "f", "explainer", "sample", tuple(GROUPS), model)
        for model in dict.fromkeys((variant, PAPER))
    }
    same = chosen[variant].formula == chosen[PAPER].formula
    return [
        _fitted(named, model, chosen[model], variant, confidence).assign(same_as_paper=same or model == PAPER)
        for model in ((variant,) if same else chosen)
    ]


def _fitted(named: pd.DataFrame, model: str, chosen: Chosen, variant: str, confidence: float) -> pd.DataFrame:
    found = fit(named, chosen.formula, REFERENCE, confidence)
    table = found.against_reference().rename(columns={"left": "explainer", "p_adjusted": "p_holm"})
    notes = [*_left_out(named, chosen.notes), *(_advised(note, variant) for note in found.notes)]
    return table.sort_values("estimate", ascending=False, kind="stable", ignore_index=True).assign(
        model=model, formula=chosen.formula, singular=found.singular, notes=" ".join(notes)
    )


def _left_out(named: pd.DataFrame, notes: Sequence[str]) -> list[str]:
    """Return the sentences about terms, with one alone for all that a group of one level leaves out."""
    scored = named[np.isfinite(named["f"])]
    alone = [name for name in GROUPS if len(scored[name].unique()) == 1]
    words = " and ".join(f"one {GROUPS[name]}" for name in alone)
    others = [note for note in notes if not {*_term(note)} & {*alone}]
    return ([f"{words.capitalize()}: nothing is said about others."] if alone else []) + others


def _term(note: str) -> list[str]:
    """Return the factors of the term that a sentence begins with: "(1|vlm:explainer) is left out: ..."."""
    return note.partition(")")[0].removeprefix("(1|").split(":")


def _advised(note: str, variant: str) -> str:
    """Return a note without advice to do what is done already, or what a pair of factors cannot be."""
    followed = variant == "fixed" or ":" in note.partition(" has ")[0]
    return note.replace(ADVICE, "") if followed else note
