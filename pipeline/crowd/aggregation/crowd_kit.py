"""crowd-kit's aggregations on votes: its table of tasks, and its answer as values of the pairs."""

import warnings
from importlib import import_module
from typing import Any

import numpy as np
import pandas as pd

from pipeline.crowd.aggregation.values import Values
from pipeline.crowd.aggregation.votes import Votes
from pipeline.errors import AssayError


def crowd_kit(name: str, **settings: object) -> Any:
    """Return crowd-kit's aggregator of that name; AssayError where crowd-kit is not installed."""
    try:
        return getattr(import_module("crowdkit.aggregation"), name)(**settings)
    except ModuleNotFoundError as missing:
        raise AssayError(f"{name} is crowd-kit's: pip install 'assay[crowd]' ({missing})") from None


def fitted_values(aggregator: Any, votes: Votes) -> Values:
    """Return P(yes) of each pair (P,) as crowd-kit's aggregator fits it, oriented.

    These models do not know which answer means presence: yes and no may change places. Where, by the
    values, misses and false alarms sum to more than 1, the values are turned over (1 - value) and every
    pair is flagged `labels_switched`. Ratings that are all yes, or all no, are 1 or 0 each.
    """
    yes = votes.yes.sum()
    if yes in (0, len(votes.vote)):
        return _oriented(votes, np.full(len(votes.yes), float(yes > 0)))
    table = pd.DataFrame({"task": votes.rated, "worker": votes.worker, "label": votes.vote.astype(np.int64)})
    with warnings.catch_warnings():
        # crowd-kit calls what pandas will drop; nothing that a reader of the values could mend.
        for kind in (DeprecationWarning, FutureWarning):
            warnings.simplefilter("ignore", kind)
        shares = aggregator.fit(table).probas_.reindex(range(len(votes.yes)))
    return _oriented(votes, shares[1].to_numpy(dtype=np.float64))


def _oriented(votes: Votes, value: np.ndarray[Any, np.dtype[np.float64]]) -> Values:
    no = votes.n_ratings - votes.yes
    present, absent = value @ votes.n_ratings, (1 - value) @ votes.n_ratings
    miss = value @ no / present if present > 0 else 0.0
    false_alarm = (1 - value) @ votes.yes / absent if absent > 0 else 0.0
    switched = bool(miss + false_alarm > 1)
    return Values(1 - value if switched else value, {"labels_switched": np.full(len(value), switched)})
