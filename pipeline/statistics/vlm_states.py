"""What the metric asks of the model, in states, beside what it asks as published and what SII asks."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from pipeline.statistics.cells import Row
from pipeline.statistics.vlm_cells import checked, parts

MEASURES = ("n_states", "n_tie_states", "n_insertion_states")
COLUMNS = (
    "n_samples", "n_explainers", "together", "alone", "ties", "insertion", "published", "sii", "sii_all",
)  # fmt: skip


def state_table(
    scores: pd.DataFrame,
    sii: pd.DataFrame,
    together: Mapping[tuple[str, ...], float],
    factors: Sequence[str],
    steps: int,
) -> pd.DataFrame:
    """Return the states of a cell, all a sample: a row a cell.

    together: as given for the cell's key (its values of the factors), null where it is not: states
    that all explainers are asked for, corners once. alone: the sum of what each explainer's F needs; of
    these ties are needed by its tie-breaks alone. insertion: the same sum for the further states of
    unimodal insertion.
    published: (6 steps + 2) an explainer. Sums are over the explainers that a sample has an F of, means
    over the samples that have any. sii: mean states of a sample and explainer with SII, sii_all: its sum
    over a sample's explainers, mean over the samples with SII; null without any. A cell without any F has
    no row. Raises AssayError as `explainer_table`.
    """
    table = checked(scores, factors, ["f", *MEASURES], "scores")
    exact = dict(parts(checked(sii, factors, ["n_states"], "sii"), factors))
    found: list[Row] = []
    for key, rows in parts(table[table["f"].notna()], factors):
        n_samples = rows["sample_id"].nunique()
        alone, ties, insertion = (float(rows[name].sum()) / n_samples for name in MEASURES)
        found.append(
            dict(zip(factors, key, strict=True))
            | {
                "n_samples": n_samples,
                "n_explainers": rows["explainer"].nunique(),
                "together": together.get(key, np.nan),
                "alone": alone,
                "ties": ties,
                "insertion": insertion,
                "published": (6 * steps + 2) * len(rows) / n_samples,
                **_exact(exact.get(key)),
            }
        )
    return pd.DataFrame(found, columns=[*factors, *COLUMNS])


def _exact(rows: pd.DataFrame | None) -> Row:
    if rows is None:
        return {"sii": np.nan, "sii_all": np.nan}
    known = rows["n_states"]
    return {"sii": float(known.mean()), "sii_all": float(known.sum() / rows["sample_id"].nunique())}
