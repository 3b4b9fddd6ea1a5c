"""From several people's ratings of a pair to one value: its concept's presence."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from pipeline.crowd.aggregation.registry import aggregation
from pipeline.crowd.aggregation.values import Values
from pipeline.crowd.aggregation.votes import BoolArray, Votes, count_votes
from pipeline.crowd.arrays import FloatArray


def aggregate(
    ratings: pd.DataFrame,
    method: str,
    *,
    error_rate: float | tuple[float, float] | None = None,
    prior: float | pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Return one row a pair: image_id, description, n_ratings, yes, value, flags.

    ratings has the columns image_id, description, worker, rating (bool or 0/1); rows come by first
    appearance. `avg`: the share of yes. `majority`: 1 or 0, a tie .5. `bragg_uniform`: BRAgg with
    one prior (None: .05). `bragg_siglip`: BRAgg with a table image_id, description, prior, clipped
    to [.001, .999]; error_rate None: .23. `bragg_em`: misses, false alarms and prevalence estimated
    from the votes, unless error_rate (one, or (miss, false_alarm)) and prior (one, or a table that
    is recalibrated) say otherwise. `dawid_skene`, `glad`, `mace`: crowd-kit's. The others use neither
    error rate nor prior.
    Flags, joined by ";": `tie` (as many yes as no), `prior_decides` (a unanimous vote that the value
    contradicts), and the method's own. Raises AssayError for an unknown method, a missing column, a
    rating that is neither yes nor no, a worker twice on a pair, a prior of the wrong kind, a pair
    without a prior.
    Source: "Beyond Top Activations" (arXiv 2506.07985), BRAgg and its baselines.
    """
    values_of = aggregation(method)
    votes = count_votes(ratings)
    return table_of(votes, values_of(votes, error_rate=error_rate, prior=prior))


def table_of(votes: Votes, found: Values) -> pd.DataFrame:
    """Return the table of `aggregate` for values of the pairs."""
    return votes.pairs.assign(
        n_ratings=votes.n_ratings,
        yes=votes.yes,
        value=found.value,
        flags=_joined(_flags(votes, found.value) | dict(found.flags), len(found.value)),
    )


def _flags(votes: Votes, value: FloatArray) -> dict[str, BoolArray]:
    yes, total = votes.yes, votes.n_ratings
    overruled = ((yes == total) & (value < 0.5)) | ((yes == 0) & (value > 0.5))
    return {"tie": 2 * yes == total, "prior_decides": overruled}


def _joined(flags: Mapping[str, BoolArray], n_pairs: int) -> "pd.Series[str]":
    """Return the names of each pair's flags, joined by ";": one text a combination, then looked up."""
    combination = np.zeros(n_pairs, dtype=np.int64)
    for bit, marked in enumerate(flags.values()):
        combination |= marked.astype(np.int64) << bit
    texts = [
        ";".join(name for bit, name in enumerate(flags) if number >> bit & 1)
        for number in range(1 << len(flags))
    ]
    return pd.Series(pd.array(texts, dtype="str").take(combination))
