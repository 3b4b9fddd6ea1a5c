"""The formula that a table of scores gets: by default, as in the paper, or with few levels as fixed."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from pipeline.errors import AssayError
from pipeline.statistics.mixed.design import (
    FEW_LEVELS,
    RandomFactor,
    design_of,
    is_nested,
    random_factor,
    scores_of,
    told_apart,
)
from pipeline.statistics.mixed.formulas import Formula

Group = tuple[str, ...]
NO_SCORE = "No row has a score, so no random factor can be chosen."
VARIANTS = ("default", "paper", "fixed")


@dataclass(frozen=True)
class Chosen:
    """A formula, and a sentence for each term that the table has no levels for."""

    formula: str
    notes: tuple[str, ...]


def formula_for(
    table: pd.DataFrame, score: str, method: str, sample: str, groups: Sequence[str], variant: str = "default"
) -> Chosen:
    """Return the formula of a variant, with the random terms that the scored rows can tell apart.

    default: score ~ method + (1|sample) + (1|sample:method), and for each group (1|group), (1|group:method)
    and (1|sample:group): an advantage may vary by sample and by group, and all methods share one answer of a
    sample and group. paper: (1|sample) and each (1|group) alone. fixed: the default with groups of fewer than
    5 levels as fixed factors. A sample belongs to its group where it occurs in one only: (1|sample:group) is
    then (1|sample); where a method has one score a sample, (1|sample:method) is the residual. Equal names in
    two groups count as one sample.
    """
    if variant not in VARIANTS:
        raise AssayError(f"variant {variant!r} is unknown; there are {', '.join(VARIANTS)}")
    every: list[Group] = [(sample,), *((group,) for group in groups)]
    if variant != "paper":
        every += [(group, method) for group in groups] + [(sample, group) for group in groups]
        every.append((sample, method))
    plain = design_of(table, Formula(score, (method,), ()), None)
    rows = table[np.isfinite(scores_of(table, score))]
    factors = {group: random_factor(rows, group) for group in [*every, (method,)]}
    fixed = [group for group in groups if variant == "fixed" and 1 < factors[group,].n_levels < FEW_LEVELS]
    crossed = [group for group in every if group[0] not in fixed or len(group) > 1]
    asked = [group for group in crossed if not _says_nothing(group, sample, method, factors, len(rows))]
    design = design_of(table, Formula(score, (method, *fixed), ()), None) if fixed else plain
    kept, notes = told_apart([factors[group] for group in asked], design)
    names = {one.name for one in kept}
    random = tuple(group for group in asked if ":".join(group) in names)
    return Chosen(Formula(score, (method, *fixed), random).text, tuple(notes) if len(rows) else (NO_SCORE,))


def _says_nothing(
    group: Group, sample: str, method: str, factors: dict[tuple[str, ...], RandomFactor], n_rows: int
) -> bool:
    """Return whether group is (sample, other) where each sample lies in one level of other, or is one row."""
    if len(group) < 2 or group[0] != sample:
        return False
    one_row = group[1] == method and factors[group].n_levels == n_rows
    return one_row or is_nested(factors[sample,], factors[group[1],])
