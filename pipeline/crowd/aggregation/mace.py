"""MACE: workers who know the answer, or else guess in a way of their own."""

import pandas as pd

from pipeline.crowd.aggregation.crowd_kit import crowd_kit, fitted_values
from pipeline.crowd.aggregation.values import Values
from pipeline.crowd.aggregation.votes import Votes
from pipeline.seeds import generator

SEED = 0
N_STARTS = 10


def values(
    votes: Votes,
    *,
    error_rate: float | tuple[float, float] | None = None,
    prior: float | pd.DataFrame | None = None,
) -> Values:
    """Return P(yes) (P,), oriented as `fitted_values` says; neither error rate nor prior counts.

    Ten starts from a generator of its own: equal ratings, equal values, and no global state. (With an
    integer seed all of crowd-kit's starts are the same one.)
    Source: D. Hovy et al., "Learning Whom to Trust with MACE" (2013), as crowd-kit has it: variational
    Bayes, yes and no equally likely beforehand.
    """
    rng = generator(SEED, "mace")
    return fitted_values(crowd_kit("MACE", n_restarts=N_STARTS, random_state=rng), votes)
