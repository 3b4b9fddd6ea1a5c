"""Bayes' rule for votes: from yes, ratings, a prior and error rates to P(the concept is present)."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, logit

from pipeline.crowd.arrays import FloatArray
from pipeline.errors import AssayError

ERROR_RATE = 0.23
UNIFORM_PRIOR = 0.05
PRIOR_RANGE = (0.001, 0.999)


def bragg(
    yes: ArrayLike, n_ratings: ArrayLike, prior: ArrayLike, error_rate: ArrayLike = ERROR_RATE
) -> FloatArray:
    """Return the posterior that the concept is present, given `yes` of `n_ratings` votes.

    logit(posterior) = logit(prior) + (2 yes - n_ratings) ln((1 - error_rate) / error_rate).
    The arguments broadcast; scalars give a scalar; no ratings give the prior back. Raises AssayError
    for a prior outside (0, 1), an error rate outside (0, .5), or yes outside 0..n_ratings.
    Source: "Beyond Top Activations" (arXiv 2506.07985), BRAgg.
    """
    votes, total = _votes(yes, n_ratings)
    before, error = np.asarray(prior, dtype=np.float64), np.asarray(error_rate, dtype=np.float64)
    check_inside("prior", before, 1)
    check_inside("error_rate", error, 0.5)
    posterior: FloatArray = expit(logit(before) + (total - 2 * votes) * logit(error))
    return posterior


def posterior_of_votes(
    yes: ArrayLike, n_ratings: ArrayLike, prior: ArrayLike, miss: ArrayLike, false_alarm: ArrayLike
) -> FloatArray:
    """Return the posterior that the concept is present where misses and false alarms have their own rates.

    miss = P(no | present), false_alarm = P(yes | absent). logit(posterior) = logit(prior)
    + yes ln((1 - miss) / false_alarm) + (n_ratings - yes) ln(miss / (1 - false_alarm)). The arguments
    broadcast; miss = false_alarm gives `bragg`. Raises AssayError for a prior or rate outside (0, 1),
    for miss + false_alarm >= 1 (a yes would speak against the concept), or yes outside 0..n_ratings.
    Source: Bayes' rule; A. Dawid and A. Skene, Applied Statistics 28 (1979), section 2.
    """
    votes, total = _votes(yes, n_ratings)
    before, missed = np.asarray(prior, dtype=np.float64), np.asarray(miss, dtype=np.float64)
    alarmed = np.asarray(false_alarm, dtype=np.float64)
    check_inside("prior", before, 1)
    check_rates(missed, alarmed)
    for_yes = np.log1p(-missed) - np.log(alarmed)
    for_no = np.log(missed) - np.log1p(-alarmed)
    posterior: FloatArray = expit(logit(before) + votes * for_yes + (total - votes) * for_no)
    return posterior


def check_rates(miss: FloatArray, false_alarm: FloatArray) -> None:
    """Raise AssayError unless both rates are in (0, 1) and sum to less than 1."""
    check_inside("miss", miss, 1)
    check_inside("false_alarm", false_alarm, 1)
    if (total := np.max(miss + false_alarm, initial=0.0)) >= 1:
        raise AssayError(
            f"miss + false_alarm is {total:g}; below 1 a yes speaks for the concept, from 1 on against it"
        )


def check_inside(name: str, values: FloatArray, high: float) -> None:
    """Raise AssayError, with the first offender, unless every value is in (0, high)."""
    inside = (values > 0) & (values < high)
    if not inside.all():
        raise AssayError(f"{name} is {np.ravel(values)[~np.ravel(inside)][0]}; it must be in (0, {high:g})")


def _votes(yes: ArrayLike, n_ratings: ArrayLike) -> tuple[FloatArray, FloatArray]:
    votes, total = np.asarray(yes, dtype=np.float64), np.asarray(n_ratings, dtype=np.float64)
    if not np.all((votes >= 0) & (votes <= total)):
        raise AssayError(f"yes is {votes} of {total} ratings; it must be in 0..n_ratings")
    return votes, total
