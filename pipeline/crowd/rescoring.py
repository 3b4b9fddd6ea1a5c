"""From a study's draws and people's ratings to scores, by any aggregation and estimator."""

from dataclasses import replace

import numpy as np
import pandas as pd

from pipeline.crowd.aggregation.aggregating import aggregate, table_of
from pipeline.crowd.aggregation.posterior import ERROR_RATE, PRIOR_RANGE
from pipeline.crowd.aggregation.values import Values
from pipeline.crowd.aggregation.votes import PAIR, Votes, count_votes
from pipeline.crowd.arrays import FloatArray
from pipeline.crowd.composites import asked, composed, is_composite, is_linear
from pipeline.crowd.estimation import PAPER, Estimation, Known, predicts
from pipeline.crowd.presence import PresenceModel, fit_presence
from pipeline.crowd.scores import Scored, scored
from pipeline.errors import AssayError

ErrorRate = float | tuple[float, float] | None

POSTERIORS = ("bragg_em", "bragg_siglip")
"""Aggregations whose values are posteriors given the scorer: what the truth can be estimated from."""
OF_TRUTH = ("combined", "disattenuated")
WITH_PRIOR = (*POSTERIORS, "bragg_uniform")
NO_FLOOR = 1e-12


def rescored(
    draws: pd.DataFrame,
    ratings: pd.DataFrame,
    n_images: int,
    aggregation: str,
    *,
    error_rate: ErrorRate = None,
    prior: float | pd.DataFrame | None = None,
    estimation: Estimation = PAPER,
    population: pd.DataFrame | None = None,
) -> Scored:
    """Return the scores of draws, by the ratings of their pairs of image and text.

    draws has the columns of study.parquet; ratings of other pairs do not count. A composite text is rated
    concept by concept, and its value is combined from theirs. bragg_siglip and bragg_em
    take the draws' probabilities unless `prior` is given. With bragg_em, an estimator that predicts
    takes prior and predictions from `fit_presence` on all draws; with bragg_siglip they are the scorer's
    as given. population: population.parquet, for estimators that predict. Raises AssayError for an
    aggregation that the estimator cannot work with, a composite text with an estimator of the truth, and
    where there are no probabilities.
    """
    check_estimator(aggregation, estimation.name)
    _check_texts(draws, estimation.name)
    questions = asked(draws)
    own = ratings.merge(questions[PAIR].drop_duplicates(), on=PAIR, validate="m:1")
    settings = replace(estimation, prior=aggregation in WITH_PRIOR)
    model: PresenceModel | None
    if aggregation == "bragg_em" and predicts(estimation.name) and len(own):
        votes = count_votes(own)
        model = _fitted(questions, votes, error_rate)
        values = table_of(votes, _posteriors(questions, votes, model))
    else:
        model = _as_given(error_rate) if predicts(estimation.name) else None
        given = _prior(questions, aggregation, prior)
        values = aggregate(own, aggregation, error_rate=error_rate, prior=given)
    known = Known(settings, model, population)
    return scored(_clipped(draws, aggregation), composed(values, draws), n_images, known)


def check_estimator(aggregation: str, estimator: str) -> None:
    """Raise AssayError where the estimator of the truth would not be given posteriors."""
    if estimator in OF_TRUTH and aggregation not in POSTERIORS:
        raise AssayError(
            f"estimator={estimator} estimates the truth from posteriors, and aggregation={aggregation} gives "
            f"none that use the scorer; take aggregation={' or '.join(POSTERIORS)}, or estimator=difference"
        )


def _check_texts(draws: pd.DataFrame, estimator: str) -> None:
    if estimator in OF_TRUTH and (composite := is_composite(draws)).any():
        text = draws.loc[composite, "description"].iloc[0]
        raise AssayError(
            f"estimator={estimator} estimates the correlation with one presence, and {text!r} is made of "
            "several concepts; take estimator=difference or importance"
        )


def _fitted(draws: pd.DataFrame, votes: Votes, error_rate: ErrorRate) -> PresenceModel:
    """Return the presence model of the rated draws, each unit and text counting as often as it was drawn."""
    counts = votes.pairs.assign(yes=votes.yes, n_ratings=votes.n_ratings)
    rated = draws.merge(counts, on=PAIR, how="inner", validate="m:1")
    mean = rated.groupby(["method", "unit", "description"])["weight"].transform("mean")
    return fit_presence(
        _probability(rated), rated["yes"], rated["n_ratings"], rated["weight"] / mean, error_rate=error_rate
    )


def _posteriors(draws: pd.DataFrame, votes: Votes, model: PresenceModel) -> Values:
    table = draws.assign(probability=_probability(draws)).drop_duplicates(PAIR).set_index(PAIR)
    probability = table["probability"].reindex(pd.MultiIndex.from_frame(votes.pairs)).to_numpy(np.float64)
    value = model.posterior(model.prior(probability), votes.yes, votes.n_ratings)
    stuck = np.full(len(value), not model.converged)
    return Values(value, {"presence_not_converged": stuck})


def _as_given(error_rate: ErrorRate) -> PresenceModel:
    rates = ERROR_RATE if error_rate is None else error_rate
    miss, false_alarm = rates if isinstance(rates, tuple | list) else (rates, rates)
    return PresenceModel(0.0, 1.0, NO_FLOOR, miss, false_alarm)


def _clipped(draws: pd.DataFrame, aggregation: str) -> pd.DataFrame:
    """Return draws whose probabilities are the priors that BRAgg takes."""
    if aggregation != "bragg_siglip" or "probability" not in draws:
        return draws
    clipped = draws["probability"].clip(*PRIOR_RANGE)
    return draws.assign(probability=draws["probability"].where(is_linear(draws), clipped))


def _prior(
    draws: pd.DataFrame, aggregation: str, prior: float | pd.DataFrame | None
) -> float | pd.DataFrame | None:
    if prior is not None or aggregation not in POSTERIORS:
        return prior
    if aggregation == "bragg_em" and "probability" not in draws:
        return None
    weight = draws["weight"].astype(np.float64)
    table = draws[PAIR].assign(weight=weight, prior=_probability(draws))
    return table.groupby(PAIR, sort=False, as_index=False).agg(
        weight=("weight", "sum"), prior=("prior", "first")
    )


def _probability(draws: pd.DataFrame) -> FloatArray:
    if "probability" not in draws:
        raise AssayError(
            "bragg_siglip needs the scorer's probability of each input (columns probability{j}, or the "
            "mapping's `probability: ...`); aggregation=bragg_uniform does without"
        )
    return draws["probability"].to_numpy(dtype=np.float64)
