"""What a claim may say of a difference, of what it was measured on, and of a mixed model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan, nan
from typing import Any

import numpy as np
import pandas as pd

from pipeline.report.mixed_text import SENTENCES
from pipeline.report.report_inputs import ReportInputs
from pipeline.report.sections.section import Block
from pipeline.report.sections.tables import Columns, Shown, data_table
from pipeline.report.sections.wording import counted, is_shown, listed, measured, p_words, share, spread
from pipeline.statistics.cells import NEGLIGIBLE
from pipeline.statistics.intervals import fewest_values

GROUPS = {"model": "model", "vlm": "model", "dataset": "dataset", "questions": "question set"}


@dataclass(frozen=True)
class Difference:
    """How much one has more than another: its interval and p, NaN where unknown; how: the test in words.

    enough: whether there are as many values as an interval wants.
    """

    value: float
    low: float = nan
    high: float = nan
    p: float = nan
    how: str = ""
    enough: bool = True

    @property
    def turned(self) -> "Difference":
        """The same difference the other way round."""
        return replace(self, value=-self.value, low=-self.high, high=-self.low)

    def is_shown(self, confidence: float) -> bool:
        """Say whether it is above 0."""
        return self.enough and is_shown(self.low, self.high, self.p, confidence)

    @property
    def words(self) -> str:
        """The interval and p in words: what is unknown is left out."""
        test = "" if isnan(self.p) else "; ".join(filter(None, [p_words(self.p), self.how]))
        told = [spread(self.low, self.high), test]
        return "; ".join(filter(None, told)) or "no interval and no test"

    @property
    def text(self) -> str:
        """The difference with its interval and p."""
        return f"{measured(self.value)} ({self.words})"


def mixed_difference(
    mixed: pd.DataFrame, column: str, name: str, reference: str, **cell: str
) -> Difference | None:
    """Return what the sweep's mixed model says of one method over a reference; None where it says nothing.

    A fit that tested but did not converge says nothing.
    mixed: as `pipeline.statistics.mixed.table.model_table` gives it, the chosen model first. cell: values of
    the columns that keep models apart.
    """
    if mixed.empty or column not in mixed:
        return None
    fits = {column: name, "reference": reference, "model": str(mixed["model"].iloc[0]), **cell}
    rows = mixed
    for key, wanted in fits.items():
        rows = rows[rows[key].astype(str) == wanted] if key in rows else rows
    if len(rows) != 1 or pd.isna(rows["estimate"].iloc[0]):
        return None
    row: Mapping[Any, Any] = rows.iloc[0].to_dict()
    if not row.get("converged", True) and pd.notna(row.get("p_holm")):
        return None
    value, low, high, p = (float(row.get(key, nan)) for key in ("estimate", "low", "high", "p_holm"))
    return Difference(value, low, high, p, "mixed model")


def mixed_block(inputs: ReportInputs, method: str, score: str, levels: str) -> list[Block]:
    """Return the table of the mixed models with their formulas and notes; nothing where there is none.

    levels: what the names of the random factors stand for.
    """
    mixed = inputs.table("mixed")
    if mixed.empty:
        return []
    apart = [str(name) for name in mixed.columns[: list(mixed.columns).index("model")]]
    shown: Columns = {
        **{name: name for name in apart if len(set(mixed[name])) > 1},
        "model": "mixed model",
        method: method,
        "reference": "over",
        "estimate": Shown(f"{score} more (interval)", ("low", "high")),
        "df": "df",
        "p": "p",
        "p_holm": "p (Holm)",
    }
    told = mixed[["model", "formula"]].drop_duplicates().itertuples(index=False, name=None)
    words = [*(f"{model}: {formula}" for model, formula in told), levels]
    notes = [each for note in mixed["notes"] for each in SENTENCES.split(str(note)) if each]
    words += [" ".join(dict.fromkeys(notes))] if notes else []
    return [data_table("mixed_shown", "mixed model", mixed, inputs.key, shown=shown, words=words)]


def paired_difference(
    pairs: pd.DataFrame, column: str, names: tuple[str, str], confidence: float, common: tuple[str, int]
) -> Difference | None:
    """Return by how much the first of two names is above the other; None without a row of both.

    pairs: a row a pair of one level, with <column>_a, <column>_b, difference, low, high and p_t_holm; where
    n_tested, the values that a test counts, is there too, it says whether they are enough. common: the
    column that counts what a pair has (n_units), and how many all have: where they differ, it is said.
    """
    if pairs.empty:
        return None
    for a, b in (names, names[::-1]):
        rows = pairs[(pairs[f"{column}_a"] == a) & (pairs[f"{column}_b"] == b) & pairs["difference"].notna()]
        if len(rows) == 1:
            row = rows.iloc[0]
            enough = row.get("n_tested", np.inf) >= fewest_values(confidence)
            value, low, high, p = (float(row[key]) for key in ("difference", "low", "high", "p_t_holm"))
            of_both = int(row[common[0]])
            where = "" if of_both == common[1] else f" on the {of_both:,} {common[0][2:]} that both have"
            found = Difference(value, low, high, p, f"paired t test{where}", bool(enough))
            return found if a == names[0] else found.turned
    return None


def rivals(ranked: pd.DataFrame, column: str, reference: str) -> pd.DataFrame:
    """Return the ranked rows after the first; the reference, which has a sentence of its own, if second."""
    others = ranked.iloc[1:]
    kept: pd.DataFrame = others[(others[column] != reference) | (np.arange(len(others)) == 0)]
    return kept


def lead(opening: str, others: Sequence[tuple[str, Difference]], confidence: float, often: str) -> str:
    """Say by how much the first is ahead, or which of the others it is not shown to be better than.

    opening: who is first, with its mean. others: those it is compared with by rank, each with how much the
    first is above it. often: in how many resamples it is first, in words or "".
    """
    rest = f" {often[0].upper()}{often[1:]}." if often else ""
    (second, ahead), *_ = others
    doubtful = [each for each in others if not each[1].is_shown(confidence)]
    if not doubtful:
        return f"{opening}: {ahead.text} above the runner-up, {second}.{rest}"
    name, found = doubtful[0]
    whom = f"the runner-up, {name}" if name == second else name
    return (
        f"{opening}, but it is not shown that it is better than {whom}: the difference is {found.text}.{rest}"
    )


def over_reference(name: str, found: Difference, confidence: float, title: str) -> str:
    """Say whether a method is above the reference; title: what it is in words."""
    if found.is_shown(confidence):
        return f"{name} is {found.text} above {title}."
    if found.turned.is_shown(confidence):
        return f"{name} is {found.turned.text} below {title}."
    return f"It is not shown that {name} is above {title}: the difference is {found.text}."


def in_order(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the ranked rows, the first one first; a row without a common mean is not ranked."""
    return rows[rows["rank"].notna() & rows["mean_common"].notna()].sort_values("rank")


def firsts(ranked: pd.DataFrame) -> pd.DataFrame:
    """Return the first ranked row with those that tie with it."""
    means = ranked["mean_common"].to_numpy(float)
    return ranked.head(int((np.abs(means - means[0]) <= NEGLIGIBLE).sum()))  # they come first


def missing(rows: pd.DataFrame, counts: str, what: str) -> str:
    """Say how many of what was asked for is missing; counts: the column of what is there."""
    n_missing = int(rows["n_missing"].sum())
    n_asked = int(rows[counts].sum()) + n_missing
    return f"{n_missing:,} of {n_asked:,} {what} are missing." if n_missing else ""


def resamples(first: pd.Series) -> str:
    """Return in how many resamples the first is first, "" where resampling says nothing."""
    known = first["n_common"] > 1 and not isnan(first["p_first"])
    return f"it is first in {share(first['p_first'])} of resamples" if known else ""


def scope(frame: pd.DataFrame, factors: Sequence[str]) -> str:
    """Say of how many models and data sets a table is, and that others are not spoken for."""
    told, lone = [], []
    for factor in factors:
        noun = GROUPS.get(factor)
        values = [] if noun is None or factor not in frame else sorted(_values(frame[factor]))
        if not values or noun is None:
            continue
        told.append(f"one {noun} ({values[0]})" if len(values) == 1 else counted(len(values), noun))
        lone += [noun] if len(values) == 1 else []
    if not told:
        return ""
    rest = f"; it says nothing of another {listed(lone).replace(' and ', ' or ')}" if lone else ""
    return f"This is about {listed(told)}{rest}."


def _values(column: pd.Series) -> set[str]:
    return {str(value) for value in column} - {"", "all"}
