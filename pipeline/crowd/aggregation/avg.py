"""The share of yes."""

import pandas as pd

from pipeline.crowd.aggregation.values import Values
from pipeline.crowd.aggregation.votes import Votes


def values(
    votes: Votes,
    *,
    error_rate: float | tuple[float, float] | None = None,
    prior: float | pd.DataFrame | None = None,
) -> Values:
    """Return yes / n_ratings (P,); neither error rate nor prior counts."""
    return Values(votes.yes / votes.n_ratings)
