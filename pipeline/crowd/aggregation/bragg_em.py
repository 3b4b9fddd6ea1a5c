"""BRAgg with misses, false alarms and prevalence, or a recalibrated prior, estimated from the votes."""

import numpy as np
import pandas as pd

from pipeline.crowd.aggregation.error_model import fit_error_model
from pipeline.crowd.aggregation.priors import pair_priors
from pipeline.crowd.aggregation.recalibration import recalibrated_priors
from pipeline.crowd.aggregation.values import Values
from pipeline.crowd.aggregation.votes import BoolArray, Votes
from pipeline.crowd.arrays import FloatArray


def values(
    votes: Votes,
    *,
    error_rate: float | tuple[float, float] | None = None,
    prior: float | pd.DataFrame | None = None,
) -> Values:
    """Return the posteriors (P,) of `fit_error_model`.

    error_rate: None to estimate misses and false alarms, one for both, or (miss, false_alarm). prior:
    None to estimate each description's prevalence; one for all pairs; or a table image_id, description,
    prior and perhaps weight, which `recalibrated_priors` fits to the votes of other images.
    Flags: `rates_assumed` where the ratings cannot tell misses from false alarms, which are then taken as
    equally likely (see `fit_error_model`); `prior_as_given` where no other image could recalibrate it.
    """
    before, flags = _prior(votes, error_rate, prior)
    model = fit_error_model(votes, error_rate=error_rate, prior=before)
    assumed = np.full(len(votes.yes), model.rates_assumed)
    return Values(model.posterior, {"rates_assumed": assumed, **flags})


def _prior(
    votes: Votes, error_rate: float | tuple[float, float] | None, prior: float | pd.DataFrame | None
) -> tuple[float | FloatArray | None, dict[str, BoolArray]]:
    if not isinstance(prior, pd.DataFrame):
        return prior, {}
    found = recalibrated_priors(votes, *pair_priors(votes, prior), error_rate=error_rate)
    return found.prior, {"prior_as_given": ~found.trained}
