"""BRAgg with one prior for every pair."""

import pandas as pd

from pipeline.crowd.aggregation.posterior import UNIFORM_PRIOR, bragg
from pipeline.crowd.aggregation.priors import one_rate
from pipeline.crowd.aggregation.values import Values
from pipeline.crowd.aggregation.votes import Votes
from pipeline.errors import AssayError


def values(
    votes: Votes,
    *,
    error_rate: float | tuple[float, float] | None = None,
    prior: float | pd.DataFrame | None = None,
) -> Values:
    """Return `bragg` (P,) with prior (None: .05) and error_rate (None: .23).

    Raises AssayError for a table of priors and for two error rates.
    """
    if isinstance(prior, pd.DataFrame):
        raise AssayError("bragg_uniform takes one prior, not a table; use bragg_siglip for a prior per pair")
    before = UNIFORM_PRIOR if prior is None else prior
    return Values(bragg(votes.yes, votes.n_ratings, float(before), one_rate("bragg_uniform", error_rate)))
