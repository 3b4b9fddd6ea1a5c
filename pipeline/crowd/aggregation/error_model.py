"""How often raters miss and imagine: error rates and prevalence, estimated from the votes alone."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaln, digamma, entr, expit, zeta

from pipeline.crowd.aggregation.posterior import ERROR_RATE, check_inside, check_rates
from pipeline.crowd.aggregation.votes import Votes, compress
from pipeline.crowd.arrays import FloatArray, IntArray
from pipeline.errors import AssayError

RATE_HYPER = (2.3, 7.7)
PREVALENCE_HYPER = (0.5, 9.5)
ANCHOR_WEIGHT = 1.0
HYPER_LOGS = (-10, 15)
TOGETHER = 5
MOST_DIFFER = 0.495
MOST_ERRORS = 1 - 1e-6
TOLERANCE = 1e-5
MAX_ITERATIONS = 500


@dataclass(frozen=True)
class ErrorModel:
    """What the votes say about raters and concepts; rates and prevalences are posterior means.

    miss, false_alarm (G,): P(no | present), P(yes | absent) of each description, or of each worker
    code where rates_by is "worker"; a group whose yes would speak against the concept (their sum is
    above 1) is scaled to a sum of 1: its votes count nothing. prevalence (D,): P(present) before the
    votes, by description, as Votes.text numbers them. pooled_...: their mean, each counted as often as
    it was seen. posterior (P,): P(present) of each pair. log_posterior (n_iterations,): the lower bound
    on it, which never falls. rates_assumed: misses and false alarms were taken as equally likely.
    """

    miss: FloatArray
    false_alarm: FloatArray
    prevalence: FloatArray
    pooled_miss: float
    pooled_false_alarm: float
    pooled_prevalence: float
    posterior: FloatArray
    n_iterations: int
    converged: bool
    log_posterior: FloatArray
    rates_by: str
    rates_assumed: bool


@dataclass(frozen=True)
class _Cells:
    """C kinds of pairs with counts, and E entries: yes and no of a rate group on a kind of pair.

    n (C,), share (C,): which prevalence is theirs; cell, group, yes, no (E,).
    """

    n: FloatArray
    share: IntArray
    n_shares: int
    cell: IntArray
    group: IntArray
    n_groups: int
    yes: FloatArray
    no: FloatArray


@dataclass(frozen=True)
class _Family:
    """Shares (G,), each a draw from one Beta that is held weakly to `anchor`; or known, then no draws."""

    size: int
    anchor: tuple[float, float]
    known: FloatArray | None = None


@dataclass(frozen=True)
class _Fit:
    """Prevalence, misses, false alarms, in this order: the shares' means and their pooled mean."""

    means: list[FloatArray]
    pooled: list[float]
    bounds: list[float]
    converged: bool


@dataclass(frozen=True)
class _Counts:
    """Expected yes and no (G,) of a family: present and absent, misses and hits, alarms and quiet."""

    yes: FloatArray
    no: FloatArray


def fit_error_model(
    votes: Votes,
    *,
    error_rate: float | tuple[float, float] | None = None,
    prior: ArrayLike | None = None,
    rates_by: Literal["description", "worker"] = "description",
    max_iterations: int = MAX_ITERATIONS,
    tolerance: float = TOLERANCE,
) -> ErrorModel:
    """Estimate misses, false alarms and prevalence from the votes.

    Pair i of description t has the concept with probability pi_t; a rating of it is yes with
    1 - miss where it has, with false_alarm where not. pi_t, miss and false_alarm of the descriptions
    (or of the workers) are draws from one Beta each, whose mean and strength are estimated too: a
    member with few ratings gets the pooled rate. The Betas of the rates start at Beta(2.3, 7.7), that
    of the prevalence at Beta(.5, 9.5), and are held there as if by one description more: every set of
    ratings has a result. Misses and false alarms sum to less than 1, which settles which label is which.

    Ratings cannot tell misses from false alarms where no pair has three, where all say the same, and
    where they would sum to 1 or more. Both are then one rate, that which explains how often two ratings
    of a pair differ (.23 where no pair has two): rates_assumed.

    error_rate: None to estimate, one for both, or (miss, false_alarm); prior: None to estimate the
    prevalence, or P(present) before the votes, one or of each pair (P,). Ends where no kind of pair's
    posterior moves by more than tolerance. Raises AssayError for a rate or prior outside (0, 1), or
    rates that sum to 1 or more.
    Source: variational EM for the model of Dawid and Skene (1979): E. Simpson, S. Roberts, I. Psorakis,
    A. Smith, "Dynamic Bayesian Combination of Multiple Imperfect Classifiers" (2013), with the Betas'
    parameters estimated (empirical Bayes) instead of fixed.
    """
    before = None if prior is None else np.asarray(prior, dtype=np.float64)
    cells, kind = _cells(votes, rates_by, before is not None and before.ndim > 0)
    given = _given_rates(error_rate)
    assumed = given is None and not _tells_rates(votes)
    fit = _fit(cells, _equal_rates(votes) if assumed else given, before, max_iterations, tolerance)
    if given is None and not assumed and fit.pooled[1] + fit.pooled[2] >= 1:
        assumed = True
        fit = _fit(cells, _equal_rates(votes), before, max_iterations, tolerance)
    return _model(votes, cells, kind, fit, rates_by, assumed)


def _model(
    votes: Votes, cells: _Cells, kind: IntArray, fit: _Fit, rates_by: str, assumed: bool
) -> ErrorModel:
    share, miss, alarm = fit.means
    too_many = np.maximum(1, (miss + alarm) / MOST_ERRORS)
    miss, alarm = miss / too_many, alarm / too_many
    logs = [(np.log(mean), np.log1p(-mean)) for mean in (share, miss, alarm)]
    by_text = np.bincount(votes.text, share[cells.share][kind], votes.n_texts)
    return ErrorModel(
        miss=miss,
        false_alarm=alarm,
        prevalence=by_text / np.maximum(np.bincount(votes.text, minlength=votes.n_texts), 1),
        pooled_prevalence=fit.pooled[0],
        pooled_miss=fit.pooled[1],
        pooled_false_alarm=fit.pooled[2],
        posterior=expit(_log_odds(cells, logs))[kind],
        n_iterations=len(fit.bounds),
        converged=fit.converged,
        log_posterior=np.array(fit.bounds),
        rates_by=rates_by,
        rates_assumed=assumed,
    )


def _given_rates(error_rate: float | tuple[float, float] | None) -> tuple[float, float] | None:
    if error_rate is None:
        return None
    miss, false_alarm = error_rate if isinstance(error_rate, tuple | list) else (error_rate, error_rate)
    check_rates(np.asarray(miss, dtype=np.float64), np.asarray(false_alarm, dtype=np.float64))
    return float(miss), float(false_alarm)


def _tells_rates(votes: Votes) -> bool:
    """Say whether ratings can tell misses from false alarms: three of a pair, and both answers given."""
    return bool((votes.n_ratings > 2).any()) and 0 < votes.yes.sum() < votes.n_ratings.sum()


def _equal_rates(votes: Votes) -> tuple[float, float]:
    """Return the one error rate that the disagreement of raters means, twice; .23 where none rated together.

    d = 2 e (1 - e) of the ratings of a pair differ; d is held to .23's as if TOGETHER more had been seen.
    """
    yes, n = votes.yes, votes.n_ratings
    differ, both = float((yes * (n - yes)).sum()), float((n * (n - 1) / 2).sum())
    share = (differ + TOGETHER * 2 * ERROR_RATE * (1 - ERROR_RATE)) / (both + TOGETHER)
    rate = (1 - math.sqrt(1 - 2 * min(share, MOST_DIFFER))) / 2
    return rate, rate


def _cells(votes: Votes, rates_by: str, by_pair: bool) -> tuple[_Cells, IntArray]:
    """Return the kinds of pairs and each pair's kind: as many as differ in description, yes and no.

    by_pair: every pair is a kind, with a share of its own.
    """
    if rates_by not in ("description", "worker"):
        raise AssayError(f"rates_by is {rates_by!r}; it must be 'description' or 'worker'")
    pairs = np.arange(len(votes.yes))
    kind, n_kinds = (pairs, len(pairs)) if by_pair or rates_by == "worker" else _kinds(votes)
    one = np.zeros(n_kinds, dtype=np.int64)
    one[kind] = pairs
    text = votes.text[one]
    share, n_shares = (pairs, len(pairs)) if by_pair else (text, votes.n_texts)
    n = np.bincount(kind, minlength=n_kinds).astype(np.float64)
    if rates_by == "worker":
        yes = votes.vote.astype(np.float64)
        worker = votes.worker.astype(np.int64)
        return _Cells(n, share, n_shares, votes.rated, worker, votes.n_workers, yes, 1 - yes), kind
    yes = votes.yes[one].astype(np.float64)
    no = votes.n_ratings[one] - yes
    return _Cells(n, share, n_shares, np.arange(n_kinds), text, votes.n_texts, yes, no), kind


def _kinds(votes: Votes) -> tuple[IntArray, int]:
    most = int(votes.n_ratings.max(initial=0)) + 1
    counts, n_counts = compress(votes.n_ratings * most + votes.yes, most * most)
    return compress(votes.text * n_counts + counts, votes.n_texts * n_counts)


def _fit(
    cells: _Cells,
    rates: tuple[float, float] | None,
    prior: FloatArray | None,
    max_iterations: int,
    tolerance: float,
) -> _Fit:
    families = _families(cells, rates, prior)
    nothing = [_Counts(np.zeros(family.size), np.zeros(family.size)) for family in families]
    hypers = np.array([family.anchor for family in families])
    logs = [_expected(*part) for part in zip(families, hypers, nothing, strict=True)]
    state = np.concatenate([_log_odds(cells, logs), np.log(hypers).ravel()])
    state, bounds, converged = _ascent(cells, families, state, max_iterations, tolerance)
    hypers = np.exp(state[-6:]).reshape(3, 2)
    counts = _counts(cells, expit(state[:-6]))
    means = [_mean(*part) for part in zip(families, hypers, counts, strict=True)]
    pooled = [_pooled(*part) for part in zip(hypers, counts, means, strict=True)]
    return _Fit(means, pooled, bounds, converged)


def _families(
    cells: _Cells, rates: tuple[float, float] | None, prior: FloatArray | None
) -> tuple[_Family, _Family, _Family]:
    share = None
    if prior is not None:
        check_inside("prior", prior, 1)
        share = np.broadcast_to(prior, (cells.n_shares,))
    miss, alarm = (None, None) if rates is None else (np.full(cells.n_groups, rate) for rate in rates)
    return (
        _Family(cells.n_shares, PREVALENCE_HYPER, share),
        _Family(cells.n_groups, RATE_HYPER, miss),
        _Family(cells.n_groups, RATE_HYPER, alarm),
    )


def _ascent(
    cells: _Cells,
    families: tuple[_Family, ...],
    state: FloatArray,
    max_iterations: int,
    tolerance: float,
) -> tuple[FloatArray, list[float], bool]:
    """Return the state that EM leads to, the bounds on the way, and whether it arrived.

    Every two EM steps are extrapolated; a leap that lowers the bound is not taken.
    Source: R. Varadhan and C. Roland, Scandinavian Journal of Statistics 35 (2008), SqS3.
    """
    first, bound = _em_step(cells, families, state)
    bounds = [bound]
    while not (arrived := _moved(state, first) <= tolerance) and len(bounds) < max_iterations:
        second, bound = _em_step(cells, families, first)
        bounds.append(bound)
        leap = _extrapolated(state, first, second)
        after, reached = _em_step(cells, families, leap)
        if not reached >= bound:
            leap = second
            after, reached = _em_step(cells, families, leap)
        bounds.append(reached)
        state, first = leap, after
    return first, bounds, arrived


def _extrapolated(state: FloatArray, first: FloatArray, second: FloatArray) -> FloatArray:
    step = first - state
    bend = second - first - step
    if not (size := np.linalg.norm(bend)):
        return second
    length = max(1.0, float(np.linalg.norm(step) / size))
    leap = state + 2 * length * step + length**2 * bend
    leap[-6:] = np.clip(leap[-6:], *HYPER_LOGS)
    return np.asarray(leap)


def _moved(state: FloatArray, after: FloatArray) -> float:
    return float(np.abs(expit(after[:-6]) - expit(state[:-6])).max(initial=0.0))


def _em_step(cells: _Cells, families: tuple[_Family, ...], state: FloatArray) -> tuple[FloatArray, float]:
    """Return the next state and the lower bound at this one.

    state: the log odds of each kind of pair (C,), then the logs of the three Betas' parameters (6,).
    """
    log_odds, hypers = state[:-6], np.exp(state[-6:]).reshape(3, 2)
    present = expit(log_odds)
    counts = _counts(cells, present)
    bound = float(cells.n @ (entr(present) + entr(expit(-log_odds))))
    logs = []
    for i, (family, count) in enumerate(zip(families, counts, strict=True)):
        bound += _evidence(family, hypers[i], count)
        logs.append(_expected(family, hypers[i], count))
        hypers[i] = _better_hyper(family, hypers[i], *logs[-1])
    return np.concatenate([_log_odds(cells, logs), np.log(hypers).ravel()]), bound


def _counts(cells: _Cells, present: FloatArray) -> tuple[_Counts, _Counts, _Counts]:
    here, away = cells.n * present, cells.n * (1 - present)
    n_present, n_absent = (_sums(cells.share, part, cells.n_shares) for part in (here, away))
    here, away = here[cells.cell], away[cells.cell]
    hits, misses, alarms, quiet = (
        _sums(cells.group, part, cells.n_groups)
        for part in (here * cells.yes, here * cells.no, away * cells.yes, away * cells.no)
    )
    return _Counts(n_present, n_absent), _Counts(misses, hits), _Counts(alarms, quiet)


def _sums(place: IntArray, part: FloatArray, n_places: int) -> FloatArray:
    # Without any part, bincount counts in integers.
    return np.bincount(place, part, n_places).astype(np.float64)


def _log_odds(cells: _Cells, logs: Sequence[tuple[FloatArray, FloatArray]]) -> FloatArray:
    """Return the log odds (C,) that the concept is present; logs: of each family, and of its complement."""
    share, miss, alarm = logs
    for_yes, for_no = miss[1] - alarm[0], miss[0] - alarm[1]
    said = cells.yes * for_yes[cells.group] + cells.no * for_no[cells.group]
    prior = (share[0] - share[1])[cells.share]
    return np.asarray(prior + np.bincount(cells.cell, said, len(cells.n)), dtype=np.float64)


def _expected(family: _Family, hyper: FloatArray, counts: _Counts) -> tuple[FloatArray, FloatArray]:
    """Return E log(share) and E log(1 - share), (G,) each."""
    if family.known is not None:
        return np.log(family.known), np.log1p(-family.known)
    alpha, beta = hyper[0] + counts.yes, hyper[1] + counts.no
    both = digamma(alpha + beta)
    return digamma(alpha) - both, digamma(beta) - both


def _evidence(family: _Family, hyper: FloatArray, counts: _Counts) -> float:
    """Return the log probability of the counts, the shares integrated out, and of hyper."""
    if family.known is not None:
        return float(counts.yes @ np.log(family.known) + counts.no @ np.log1p(-family.known))
    each = betaln(hyper[0] + counts.yes, hyper[1] + counts.no) - betaln(*hyper)
    return float(each.sum()) + _log_density(hyper, *_anchor_sums(family.anchor), ANCHOR_WEIGHT)


def _mean(family: _Family, hyper: FloatArray, counts: _Counts) -> FloatArray:
    if family.known is not None:
        return family.known
    alpha, beta = hyper[0] + counts.yes, hyper[1] + counts.no
    return np.asarray(alpha / (alpha + beta), dtype=np.float64)


def _pooled(hyper: FloatArray, counts: _Counts, mean: FloatArray) -> float:
    seen = counts.yes + counts.no
    return float(mean @ seen / seen.sum()) if seen.sum() > 0 else float(hyper[0] / hyper.sum())


def _log_density(hyper: FloatArray, log: float, log_not: float, n: float) -> float:
    """Return the log density of n shares with these sums of log(share) and log(1 - share)."""
    return float((hyper[0] - 1) * log + (hyper[1] - 1) * log_not - n * betaln(*hyper))


@cache
def _anchor_sums(anchor: tuple[float, float]) -> tuple[float, float]:
    log, log_not = digamma(anchor) - digamma(sum(anchor))
    return ANCHOR_WEIGHT * float(log), ANCHOR_WEIGHT * float(log_not)


def _better_hyper(family: _Family, hyper: FloatArray, logs: FloatArray, logs_not: FloatArray) -> FloatArray:
    """Return one Newton step towards the most likely Beta, halved until it is no worse."""
    if family.known is not None:
        return hyper
    extra = _anchor_sums(family.anchor)
    log, log_not = float(logs.sum()) + extra[0], float(logs_not.sum()) + extra[1]
    n = family.size + ANCHOR_WEIGHT
    now = _log_density(hyper, log, log_not, n)
    step = _newton(hyper, log / n, log_not / n)
    for _ in range(20):
        new = hyper + step
        if new.min() > 0 and _log_density(new, log, log_not, n) >= now:
            return new
        step /= 2
    return hyper


def _newton(hyper: FloatArray, log: float, log_not: float) -> FloatArray:
    both, curve = digamma(hyper.sum()), zeta(2, hyper.sum())
    slope = np.array([log, log_not]) - digamma(hyper) + both
    # The Hessian is curve * ones - diag(zeta(2, hyper)): inverted by Sherman and Morrison.
    own = 1 / zeta(2, hyper)
    return np.asarray((slope + curve * (slope @ own) / (1 - curve * own.sum())) * own, dtype=np.float64)
