"""1 for more yes than no, 0 for fewer, a tie .5."""

import numpy as np
import pandas as pd

from pipeline.crowd.aggregation.values import Values
from pipeline.crowd.aggregation.votes import Votes


def values(
    votes: Votes,
    *,
    error_rate: float | tuple[float, float] | None = None,
    prior: float | pd.DataFrame | None = None,
) -> Values:
    """Return the majority (P,); neither error rate nor prior counts."""
    return Values((np.sign(2 * votes.yes - votes.n_ratings) + 1) / 2)
