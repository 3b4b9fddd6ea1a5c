"""GLAD: workers of different ability, pairs of different difficulty."""

import pandas as pd

from pipeline.crowd.aggregation.crowd_kit import crowd_kit, fitted_values
from pipeline.crowd.aggregation.values import Values
from pipeline.crowd.aggregation.votes import Votes


def values(
    votes: Votes,
    *,
    error_rate: float | tuple[float, float] | None = None,
    prior: float | pd.DataFrame | None = None,
) -> Values:
    """Return P(yes) (P,), oriented as `fitted_values` says; neither error rate nor prior counts.

    Source: J. Whitehill et al., "Whose Vote Should Count More" (2009), as crowd-kit has it: yes and no
    are equally likely beforehand, and a worker's misses and false alarms too.
    """
    return fitted_values(crowd_kit("GLAD"), votes)
