"""F by the model's answer: D is near 0 for "no", so the answers' mix moves a mean."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from pipeline.seeds import generator
from pipeline.statistics.vlm_cells import (
    checked,
    columns_of,
    estimates,
    explainers_of,
    levels,
    resamples,
    vlm_cells,
)

OTHER = "other"
MAX_ANSWERS = 6
MIN_SAMPLES = 2
COLUMNS = ("answer", "explainer", "n_samples", "mean_f", "low", "high", "mean_dividend")


def strata_table(
    scores: pd.DataFrame,
    factors: Sequence[str],
    *,
    confidence: float = 0.95,
    n_bootstrap: int = 2000,
    seed: int = 0,
) -> pd.DataFrame:
    """Return mean F by the model's answer: a row a cell (and "overall"), answer and explainer.

    Answers are taken without the space around them. The 6 most frequent of those that two or more samples
    of a cell have are named, by frequency and then by name; the rest, and an answer that reads "other",
    are "other", which comes last. Overall, frequencies are sums, and a named answer counts in the cells
    where two samples have it. A sample without any F is in no stratum, an explainer without F in it has no
    row. For mean_f, its interval, factors and errors see `explainer_table`.
    """
    table = checked(scores, factors, ["f", "dividend"], "scores", words=["answer"])
    table = table.assign(answer=table["answer"].str.strip())
    found = []
    for head, rows in levels(table, factors):
        labelled, answers = _labelled(rows[rows["f"].notna()], factors)
        for answer in answers:
            rng = generator(seed, "vlm strata", *head.values(), answer)
            stratum = labelled[labelled["answer"] == answer]
            found.append(_rows(stratum, factors, confidence, n_bootstrap, rng).assign(answer=answer, **head))
    columns = ["level", *factors, *COLUMNS]
    return pd.concat(found, ignore_index=True)[columns] if found else pd.DataFrame(columns=columns)


def _labelled(rows: pd.DataFrame, factors: Sequence[str]) -> tuple[pd.DataFrame, list[str]]:
    """Return the rows with rare answers as "other", and the answers that are left, in order."""
    by_cell = [*factors, "answer"]
    samples = rows.drop_duplicates([*factors, "sample_id"])
    n = samples.groupby(by_cell)["sample_id"].size()
    n = n[(n >= MIN_SAMPLES) & (n.index.get_level_values("answer") != OTHER)]
    often = n.groupby("answer").sum().sort_values(ascending=False, kind="stable").index[:MAX_ANSWERS]
    named = pd.MultiIndex.from_frame(rows[by_cell]).isin(n.index) & rows["answer"].isin(often)
    labelled = rows.assign(answer=rows["answer"].where(named, OTHER))
    return labelled, [*map(str, often), *([] if named.all() else [OTHER])]


def _rows(
    stratum: pd.DataFrame,
    factors: Sequence[str],
    confidence: float,
    n_bootstrap: int,
    rng: np.random.Generator,
) -> pd.DataFrame:
    cells = vlm_cells(stratum, factors, "f")
    names = explainers_of(cells)
    tables = [columns_of(cell, names) for cell in cells]
    own = estimates(tables, resamples(cells, n_bootstrap, rng), confidence)
    by_cell = stratum.groupby([*factors, "explainer"])["dividend"].mean()
    return pd.DataFrame(
        {
            "explainer": names,
            "n_samples": own.n,
            "mean_f": own.value,
            "low": own.low,
            "high": own.high,
            "mean_dividend": by_cell.groupby("explainer").mean().loc[names].to_numpy(),
        }
    )
