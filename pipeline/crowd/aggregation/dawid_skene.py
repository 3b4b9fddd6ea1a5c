"""Dawid and Skene's workers: each with rates of its own, by maximum likelihood."""

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

    Source: A. Dawid and A. Skene, Applied Statistics 28 (1979), as crowd-kit has it: EM from the
    majority, 100 iterations at most. No priors: a worker with few ratings gets extreme rates.
    """
    return fitted_values(crowd_kit("DawidSkene", n_iter=100), votes)
