"""BRAgg with the scorer's probability of each pair as its prior."""

import pandas as pd

from pipeline.crowd.aggregation.posterior import bragg
from pipeline.crowd.aggregation.priors import one_rate, pair_priors
from pipeline.crowd.aggregation.values import Values
from pipeline.crowd.aggregation.votes import Votes
from pipeline.errors import AssayError


def values(
    votes: Votes,
    *,
    error_rate: float | tuple[float, float] | None = None,
    prior: float | pd.DataFrame | None = None,
) -> Values:
    """Return `bragg` (P,) with a table image_id, description, prior, clipped, and error_rate (None: .23).

    Raises AssayError for a prior that is no table, lacks a pair or is outside [0, 1], and for two error
    rates.
    """
    if not isinstance(prior, pd.DataFrame):
        raise AssayError(f"bragg_siglip needs a table image_id, description, prior; got {prior!r}")
    before, _ = pair_priors(votes, prior)
    return Values(bragg(votes.yes, votes.n_ratings, before, one_rate("bragg_siglip", error_rate)))
