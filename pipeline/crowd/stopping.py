"""When an input has been rated enough."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pipeline.crowd.aggregation.posterior import PRIOR_RANGE, UNIFORM_PRIOR, bragg
from pipeline.crowd.arrays import FloatArray

LEAST_RATINGS = 2
UNDECIDED = (0.05, 0.95)
ROUNDING = 1e-12
"""One yes and one no give a prior of .05 back: it has not left the range, whatever its last bit."""


def stop_prior(aggregation: Mapping[str, Any], probability: FloatArray) -> FloatArray:
    """Return the prior (P,) of the rule that stops: the scorer's for `bragg_siglip`, else one for all."""
    if aggregation["name"] == "bragg_siglip":
        return np.clip(probability, *PRIOR_RANGE)
    return np.full(len(probability), aggregation.get("prior", UNIFORM_PRIOR))


def n_asked(ratings: ArrayLike, prior: ArrayLike, error_rate: float) -> NDArray[np.int64]:
    """Return how many of its m raters each of P inputs needs, (P,), asked in order.

    ratings (P, m) is 0 or 1, prior (P,) in (0, 1).
    """
    votes = np.asarray(ratings, dtype=np.int64)
    yes, n_raters = np.cumsum(votes, axis=1), np.arange(1, votes.shape[1] + 1)
    stopped = decisive(yes, n_raters, np.asarray(prior)[:, None], error_rate)
    asked = np.where(stopped.any(axis=1), stopped.argmax(axis=1) + 1, votes.shape[1])
    return np.asarray(asked, dtype=np.int64)


def decisive(
    yes: ArrayLike, n_ratings: ArrayLike, prior: ArrayLike, error_rate: ArrayLike
) -> NDArray[np.bool_]:
    """Say of each input whether its posterior has left [.05, .95] after at least 2 ratings.

    The arguments broadcast; the posterior is BRAgg's. Given the ratings, BRAgg's value does not depend on
    why raters stopped; but which ratings there are does, so scores lean further to the prior than with
    all m ratings, and a prior below .0047 or above .9953 (eta = .23) stops after any two ratings.
    """
    posterior = np.asarray(bragg(yes, n_ratings, prior, error_rate))
    left = (posterior < UNDECIDED[0] - ROUNDING) | (posterior > UNDECIDED[1] + ROUNDING)
    return np.asarray(left & (np.asarray(n_ratings) >= LEAST_RATINGS), dtype=np.bool_)
