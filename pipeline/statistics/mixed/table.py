"""Each method against one reference by the models of a sweep, as a table."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from scipy import stats

from pipeline.errors import AssayError
from pipeline.statistics.cells import NEGLIGIBLE
from pipeline.statistics.mixed.defaults import VARIANTS, Chosen, formula_for
from pipeline.statistics.mixed.fitting import Fit, fit

PAPER = "paper"
COLUMNS = ("estimate", "std_error", "df", "t", "p", "p_holm", "low", "high")
SIGNS = ("n_cells", "n_above", "p_sign")
ASIDE = ("formula", "same_as_paper", "singular", "converged", "notes")
ADVICE = "; it can be a fixed factor instead (stats=fixed)"


def model_table(
    scores: pd.DataFrame,
    *,
    score: str,
    method: str,
    sample: str,
    groups: Mapping[str, str],
    apart: Sequence[str] = (),
    references: Sequence[str] = ("random",),
    variant: str = "default",
    confidence: float = 0.95,
) -> pd.DataFrame:
    """Return each method's score over the reference's, highest first, by the model of a variant.

    scores: one row a score, with columns method, sample (whose names are unique over the groups), and the
    groups (column to its name in words). Columns: apart, model, method, reference, `COLUMNS`, `SIGNS`,
    `ASIDE`. n_above: of the n_cells (combinations of groups) in which the mean over common samples differs
    from the reference's, those where it is higher; p_sign: the exact two-sided sign test, null without any.
    The test takes cells for independent, which those of one model are not where advantages vary by model.
    reference: the first of `references` that is a method here, else the method of the highest mean. p_holm:
    over the methods of one model; over all its pairs where the scores chose the reference, as any pair could
    have been the highest and another. converged: false too where nothing was tested. same_as_paper: the
    formula is that of "paper"; else its rows come after.
    Each combination of `apart` has models of its own; one method alone has no row. A null score is left out
    and counted in notes. Raises AssayError for a variant that is not in `VARIANTS`.
    """
    if variant not in VARIANTS:
        raise AssayError(f"variant {variant!r} is unknown; there are {', '.join(VARIANTS)}")
    columns = [*apart, "model", method, "reference", *COLUMNS, *SIGNS, *ASIDE]
    found = [
        table.assign(**{name: rows[name].iloc[0] for name in apart})
        for _, rows in scores.groupby(joined(scores, apart), sort=True)
        if len({*rows[method]}) > 1
        for table in _models(rows, score, method, sample, groups, references, variant, confidence)
    ]
    return pd.concat(found, ignore_index=True)[columns] if found else pd.DataFrame(columns=columns)


def joined(table: pd.DataFrame, columns: Sequence[str]) -> pd.Series:
    """Return the values of some columns as one name; without columns, one name for all rows."""
    names = pd.Series("", index=table.index)
    for column in columns:
        names = names + "\x1f" + table[column].map(str)  # a null too has a name
    return names


def _models(
    rows: pd.DataFrame,
    score: str,
    method: str,
    sample: str,
    groups: Mapping[str, str],
    references: Sequence[str],
    variant: str,
    confidence: float,
) -> list[pd.DataFrame]:
    """Return the rows of the variant, and those of "paper" where its formula is another."""
    chosen = {
        model: formula_for(rows, score, method, sample, tuple(groups), model)
        for model in dict.fromkeys((variant, PAPER))
    }
    same = chosen[variant].formula == chosen[PAPER].formula
    there = [name for name in references if name in {*rows[method]}]
    tables = []
    for model in (variant,) if same else chosen:
        found = _fit(rows, chosen[model], there, confidence)
        notes = [*_left_out(rows[np.isfinite(rows[score])], groups, chosen[model].notes)]
        notes += [_advised(note, variant) for note in found.notes]
        signs = _signs(rows, score, method, sample, groups, str(found.reference))
        table = _rows(found, method, chosen_by_scores=not there).merge(signs, on=method, how="left")
        tables.append(table.assign(model=model, formula=chosen[model].formula, notes=" ".join(notes)))
    return [table.assign(same_as_paper=same or table["model"].eq(PAPER)) for table in tables]


def _fit(rows: pd.DataFrame, chosen: Chosen, references: Sequence[str], confidence: float) -> Fit:
    """Return the fit against the first reference, or against the method of the highest mean."""
    if references:
        return fit(rows, chosen.formula, references[0], confidence)
    means = fit(rows, chosen.formula, None, confidence).marginal_means()
    best = means.sort_values("estimate", ascending=False, kind="stable", na_position="last")["level"]
    return fit(rows, chosen.formula, str(best.iloc[0]), confidence)


def _rows(found: Fit, method: str, chosen_by_scores: bool) -> pd.DataFrame:
    table = found.against_reference()
    if chosen_by_scores:
        first_pairs = found.contrasts().iloc[: len(table)]  # those of the base level, in the same order
        table = table.assign(p_adjusted=first_pairs["p_adjusted"].to_numpy())
    named = table.rename(columns={"left": method, "right": "reference", "p_adjusted": "p_holm"})
    ordered = named.sort_values("estimate", ascending=False, kind="stable", ignore_index=True)
    return ordered.assign(singular=found.singular, converged=found.converged)


def _signs(
    rows: pd.DataFrame, score: str, method: str, sample: str, groups: Mapping[str, str], reference: str
) -> pd.DataFrame:
    """Return `SIGNS` of each method: in how many cells its mean lies above the reference's."""
    named = rows.assign(cell=joined(rows, [*groups]))
    means = named.pivot_table(
        values=score, index=["cell", sample], columns=method, aggfunc="mean", dropna=False
    )
    over = means.sub(means[reference], axis=0).groupby("cell").mean()
    n_cells, n_above = (over.abs() > NEGLIGIBLE).sum(), (over > NEGLIGIBLE).sum()
    counts = zip(n_above, n_cells, strict=True)
    p = [stats.binomtest(int(a), int(n)).pvalue if n else np.nan for a, n in counts]
    return pd.DataFrame(
        {method: over.columns, "n_cells": n_cells.to_numpy(), "n_above": n_above.to_numpy(), "p_sign": p}
    )


def _left_out(scored: pd.DataFrame, groups: Mapping[str, str], notes: Sequence[str]) -> list[str]:
    """Return the sentences about terms, with one alone for all that a group of one level leaves out."""
    alone = [name for name in groups if len({*scored[name]}) == 1]
    words = " and ".join(f"one {groups[name]}" for name in alone)
    others = [note for note in notes if not {*_term(note)} & {*alone}]
    return ([f"{words.capitalize()}: nothing is said about others."] if alone else []) + others


def _term(note: str) -> list[str]:
    """Return the factors of the term that a sentence begins with: "(1|vlm:explainer) is left out: ..."."""
    return note.partition(")")[0].removeprefix("(1|").split(":")


def _advised(note: str, variant: str) -> str:
    """Return a note without advice to do what is done already, or what a pair of factors cannot be."""
    followed = variant == "fixed" or ":" in note.partition(" has ")[0]
    return note.replace(ADVICE, "") if followed else note
