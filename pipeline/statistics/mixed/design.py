"""From a table and a formula to columns: which rows count, which factors can be told apart."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import sparse

from pipeline.errors import AssayError
from pipeline.statistics.intervals import Codes, Floats
from pipeline.statistics.mixed.formulas import Formula

FEW_LEVELS = 5
"""A random factor with fewer levels says little about its variance (lme4's own advice)."""
UNTOLD = 1e-9


@dataclass(frozen=True)
class FixedFactor:
    """A fixed factor: its levels, the base level first, and each row's level."""

    name: str
    levels: tuple[str, ...]
    codes: Codes


@dataclass(frozen=True)
class RandomFactor:
    """A random factor: its name ("vlm:explainer"), its number of levels, and each row's level (N,)."""

    name: str
    n_levels: int
    codes: Codes


@dataclass(frozen=True)
class Design:
    """The rows that have a score: y (N,), and their fixed and random factors; notes are sentences."""

    y: Floats
    fixed: tuple[FixedFactor, ...]
    random: tuple[RandomFactor, ...]
    n_missing: int
    notes: tuple[str, ...]

    @property
    def terms(self) -> tuple[str, ...]:
        """The names of the fixed columns (p,): intercept, then factor[level] for all but base levels."""
        return ("intercept", *(f"{one.name}[{level}]" for one in self.fixed for level in one.levels[1:]))

    @property
    def columns(self) -> sparse.csr_array:
        """The fixed columns (N, p): ones, then an indicator for each level but the base."""
        ones = sparse.csr_array(np.ones((len(self.y), 1)))
        sides = [indicators(one.codes, len(one.levels))[:, 1:] for one in self.fixed]
        return sparse.csr_array(sparse.hstack([ones, *sides], format="csr"))


def indicators(codes: Codes, n_levels: int) -> sparse.csr_array:
    """Return the matrix (N, n_levels) with a one at each row's level."""
    n = len(codes)
    return sparse.csr_array((np.ones(n), codes, np.arange(n + 1)), shape=(n, n_levels))


def design_of(table: pd.DataFrame, formula: Formula, reference: str | None) -> Design:
    """Return the design of a table: rows without a finite score are left out, and a note counts them.

    The first fixed factor's base level is reference, or else its first; the others' is their first.
    A column that is not there or has gaps, and a reference that is no level: AssayError.
    """
    _check_columns(table, formula)
    scores = scores_of(table, formula.score)
    scored = np.isfinite(scores)
    every = [_fixed_factor(table[name], name) for name in formula.fixed]
    every[:1] = [_with_base(one, reference) for one in every[:1]]
    if reference is not None and not every:
        raise AssayError(f"reference {reference!r}: the formula {formula.text!r} has no fixed factor")
    fixed = [FixedFactor(one.name, one.levels, one.codes[scored]) for one in every]
    rows = table[scored]
    random = [random_factor(rows, group) for group in formula.random]
    plain = Design(scores[scored], tuple(fixed), (), int(np.sum(~scored)), ())
    kept, dropped = told_apart(random, plain)
    notes = _missing_notes(every, scored)
    if scored.any():
        notes += [*_level_notes(fixed), *dropped, *_few_level_notes(kept)]
    return Design(plain.y, plain.fixed, tuple(kept), plain.n_missing, tuple(notes))


def scores_of(table: pd.DataFrame, score: str) -> Floats:
    """Return the column of scores (N,), null where there is none; AssayError where it holds no numbers."""
    try:
        return np.asarray(table[score].to_numpy(dtype=np.float64, na_value=np.nan), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise AssayError(f"the score, column {score!r}, must hold numbers: {error}") from error


def random_factor(rows: pd.DataFrame, group: Sequence[str]) -> RandomFactor:
    """Return the factor whose levels are the combinations of the group's columns that occur."""
    codes = np.zeros(len(rows), dtype=np.int64)
    for name in group:
        here, levels = pd.factorize(rows[name])
        codes = np.asarray(pd.factorize(codes * max(len(levels), 1) + here)[0], dtype=np.int64)
    return RandomFactor(":".join(group), int(codes.max(initial=-1)) + 1, codes)


def told_apart(random: Sequence[RandomFactor], design: Design) -> tuple[list[RandomFactor], list[str]]:
    """Return the random factors whose variance the rows can tell, and a sentence for each other one."""
    kept: list[RandomFactor] = []
    notes = []
    for one in random:
        why = _why_untold(one, kept, design)
        if why:
            notes.append(f"(1|{one.name}) is left out: {why}.")
        else:
            kept.append(one)
    return kept, notes


def is_nested(inner: RandomFactor, outer: RandomFactor) -> bool:
    """Return whether each level of inner lies in one level of outer."""
    pairs = inner.codes * max(outer.n_levels, 1) + outer.codes
    return len(pd.unique(pairs)) == inner.n_levels


def _why_untold(one: RandomFactor, kept: Sequence[RandomFactor], design: Design) -> str:
    if one.n_levels < 2:
        return f"{one.name} has one level only"
    if one.n_levels == len(design.y):
        return f"each level of {one.name} has one row, so it cannot be told from the residual"
    for other in kept:
        if one.n_levels == other.n_levels and is_nested(one, other):
            return f"{one.name} has the same groups as {other.name}"
    if _in_span(one, design):
        return f"the fixed part says all that {one.name} could say"
    return ""


def _in_span(one: RandomFactor, design: Design) -> bool:
    """Return whether the fixed columns span every level's indicator."""
    columns = design.columns
    if one.n_levels > columns.shape[1]:
        return False
    gram = (columns.T @ columns).toarray()
    across = (indicators(one.codes, one.n_levels).T @ columns).toarray()
    explained = np.sum(across @ np.linalg.pinv(gram, hermitian=True) * across, axis=1)
    counts = np.bincount(one.codes, minlength=one.n_levels)
    return bool(np.all(counts - explained <= UNTOLD * counts))


def _check_columns(table: pd.DataFrame, formula: Formula) -> None:
    factors = list(dict.fromkeys([*formula.fixed, *(name for group in formula.random for name in group)]))
    absent = [name for name in [formula.score, *factors] if name not in table.columns]
    if absent:
        raise AssayError(
            f"the formula {formula.text!r} names {', '.join(map(repr, absent))}; "
            f"the table has {', '.join(map(repr, table.columns))}"
        )
    for name in factors:
        gaps = table[name].isna().to_numpy()
        if gaps.any():
            raise AssayError(
                f"column {name!r} has no value in {int(gaps.sum())} of {len(table)} rows, "
                f"the first is row {int(np.argmax(gaps))}: a factor needs a level in each row"
            )


def _fixed_factor(column: pd.Series, name: str) -> FixedFactor:
    codes, levels = pd.factorize(column, sort=True)
    names = tuple(str(level) for level in levels)
    return FixedFactor(name, names, np.asarray(codes, dtype=np.int64))


def _with_base(one: FixedFactor, reference: str | None) -> FixedFactor:
    if reference is None:
        return one
    if reference not in one.levels:
        raise AssayError(
            f"reference {reference!r} is no level of {one.name!r}; it has {', '.join(one.levels)}"
        )
    base = one.levels.index(reference)
    order = [base, *(number for number in range(len(one.levels)) if number != base)]
    return FixedFactor(one.name, tuple(one.levels[i] for i in order), np.argsort(order)[one.codes])


def _missing_notes(fixed: Sequence[FixedFactor], scored: np.ndarray) -> list[str]:
    missing = int(np.sum(~scored))
    if not missing:
        return []
    note = f"{missing} of {len(scored)} rows have no score and are left out"
    if not fixed:
        return [f"{note}."]
    counts = np.bincount(fixed[0].codes[~scored], minlength=len(fixed[0].levels))
    named = [f"{level} {count}" for level, count in zip(fixed[0].levels, counts, strict=True) if count]
    return [f"{note} ({', '.join(named)})."]


def _level_notes(fixed: Sequence[FixedFactor]) -> list[str]:
    notes = []
    for one in fixed:
        counts = np.bincount(one.codes, minlength=len(one.levels))
        notes += [
            f"{one.name} {level} has no score, so nothing is said of it."
            for level, count in zip(one.levels, counts, strict=True)
            if not count
        ]
        if len(one.levels) == 1:
            notes.append(f"{one.name} has one level only ({one.levels[0]}): there is nothing to compare.")
    return notes


def _few_level_notes(random: Sequence[RandomFactor]) -> list[str]:
    return [
        f"{one.name} has {one.n_levels} levels: fewer than {FEW_LEVELS} barely tell the variance of a random "
        "factor; it can be a fixed factor instead (stats=fixed)."
        for one in random
        if one.n_levels < FEW_LEVELS
    ]
