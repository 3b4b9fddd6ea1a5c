"""What scorer and raters together say: recalibrated probabilities, the scorer's blind share, error rates."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, logit
from scipy.stats import binom

from pipeline.crowd.aggregation.posterior import check_rates
from pipeline.crowd.arrays import FloatArray, IntArray
from pipeline.crowd.estimators.sample import Population

LOGITS = (-13.8, 13.8)
"""Probabilities are held to [1e-6, 1 - 1e-6]."""
N_BINS = 256
RATE_PRIOR = (2.3, 7.7)
FLOOR_PRIOR = (0.1, 50.0)
FLOOR_START = 0.02
FLOOR_RANGE = (1e-6, 0.5)
LEAST_SLOPE = 0.05
SPREADS = (10.0, 1.0)
TINY = np.finfo(np.float64).tiny
TOLERANCE = 1e-4
MAX_ITERATIONS = 3000


@dataclass(frozen=True)
class PresenceModel:
    """P(present) = floor + (1 - floor) expit(offset + slope logit(probability)), and how raters err.

    miss, false_alarm: P(no | present), P(yes | absent) of a rating. converged: EM came to rest. shift is
    added to the log odds of P(present), to see what depends on them.
    """

    offset: float
    slope: float
    floor: float
    miss: float
    false_alarm: float
    converged: bool = True
    shift: float = 0.0

    def seen(self, probability: ArrayLike) -> FloatArray:
        """Return what the scorer's probability (...,) says after recalibration, without the floor."""
        return np.asarray(expit(self.offset + self.slope * _logits(probability)))

    def prior(self, probability: ArrayLike) -> FloatArray:
        """Return the recalibrated probability (...,)."""
        prior = np.asarray(self.floor + (1 - self.floor) * self.seen(probability))
        return np.asarray(expit(logit(prior) + self.shift)) if self.shift else prior

    def posterior(self, prior: ArrayLike, yes: ArrayLike, n_ratings: ArrayLike) -> FloatArray:
        """Return P(present) (...,) after `yes` of `n_ratings` votes."""
        return np.asarray(expit(logit(np.asarray(prior)) + self.evidence(yes, n_ratings)))

    def evidence(self, yes: ArrayLike, n_ratings: ArrayLike) -> FloatArray:
        """Return the log likelihood ratio of the votes, present against absent (...,)."""
        said, total = np.asarray(yes, dtype=np.float64), np.asarray(n_ratings, dtype=np.float64)
        for_yes = np.log1p(-self.miss) - np.log(self.false_alarm)
        for_no = np.log(self.miss) - np.log1p(-self.false_alarm)
        return np.asarray(said * for_yes + (total - said) * for_no)

    def reliability(self, prior: ArrayLike, n_ratings: int) -> FloatArray:
        """Return E[posterior | present] - E[posterior | absent] (...,) for n_ratings votes: 0 to 1."""
        yes = np.arange(n_ratings + 1)
        after = self.posterior(np.asarray(prior)[..., None], yes, n_ratings)
        present = binom.pmf(yes, n_ratings, 1 - self.miss)
        return np.asarray(after @ (present - binom.pmf(yes, n_ratings, self.false_alarm)))


def fit_presence(
    probability: ArrayLike,
    yes: ArrayLike,
    n_ratings: ArrayLike,
    weight: ArrayLike,
    *,
    error_rate: float | tuple[float, float] | None = None,
) -> PresenceModel:
    """Fit error rates, recalibration and floor to the rated draws of a study by EM.

    probability (n,) in [0, 1], yes and n_ratings (n,), weight (n,): p/q of the draw. error_rate: None to
    estimate misses and false alarms, one for both, or (miss, false_alarm). A presence has two
    sources: the recalibrated probability, and the floor, which no probability tells of. Rates are
    estimated first, with every draw counted once; then recalibration and floor, with draws counted by
    their weights, since they were chosen by activation. Weak priors (slope near 1, offset near 0, floor
    near .002, rates near .23) decide where the ratings say nothing. Raises AssayError for rates outside
    (0, 1), or that sum to 1 or more.
    Source: J. Platt, "Probabilistic Outputs for Support Vector Machines" (1999), for the logistic
    recalibration, on latent labels; the floor is ours.
    """
    cells = _cells(probability, yes, n_ratings, weight)
    if error_rate is None:
        rate = RATE_PRIOR[0] / sum(RATE_PRIOR)
        start = PresenceModel(0.0, 1.0, FLOOR_START, rate, rate, converged=False)
        found = _em(replace(cells, weight=cells.n), start, estimate_rates=True)
        error_rate = found.miss, found.false_alarm
    miss, false_alarm = error_rate if isinstance(error_rate, tuple | list) else (error_rate, error_rate)
    check_rates(np.asarray(miss), np.asarray(false_alarm))
    start = PresenceModel(0.0, 1.0, FLOOR_START, float(miss), float(false_alarm), converged=False)
    return _em(cells, start, estimate_rates=False)


def population_of(
    model: PresenceModel,
    n_images: ArrayLike,
    probability: ArrayLike,
    activation: ArrayLike,
    n_ratings: ArrayLike,
) -> Population:
    """Return the means over all images from bins (..., B) of the probability, for votes of n_ratings (R,).

    n_images, and the bin's mean probability and mean standardised activation. Reliabilities are averaged
    over n_ratings, the numbers of votes that the pairs' inputs have.
    """
    share = np.asarray(n_images, dtype=np.float64)
    share = share / share.sum(axis=-1, keepdims=True)
    seen, s = model.seen(probability), model.prior(probability)
    spread = s * (1 - s)
    counts, times = np.unique(np.asarray(n_ratings, dtype=np.int64), return_counts=True)
    reliable = sum(
        model.reliability(s, int(count)) * part
        for count, part in zip(counts, times / times.sum(), strict=True)
    )
    mean = (share * s).sum(axis=-1)
    return Population(
        mean=mean,
        product=(share * np.asarray(activation) * s).sum(axis=-1),
        square=(share * s * s).sum(axis=-1),
        spread=(share * spread).sum(axis=-1),
        reliable=(share * spread * reliable).sum(axis=-1),
        blind=(share * model.floor * (1 - seen)).sum(axis=-1) / mean,
    )


@dataclass(frozen=True)
class _Cells:
    """Draws that agree in binned logit, yes and no; weight is scaled to the number of draws."""

    score: FloatArray
    yes: FloatArray
    no: FloatArray
    weight: FloatArray
    n: FloatArray


def _cells(probability: ArrayLike, yes: ArrayLike, n_ratings: ArrayLike, weight: ArrayLike) -> _Cells:
    score, w = _logits(probability), np.asarray(weight, dtype=np.float64)
    said, total = np.asarray(yes, dtype=np.int64), np.asarray(n_ratings, dtype=np.int64)
    code, size = _bins(score), int(total.max(initial=0)) + 1
    code = (code * size + said) * size + (total - said)
    length = N_BINS * size * size
    n = np.bincount(code, minlength=length).astype(np.float64)
    used = np.flatnonzero(n)
    sums = np.bincount(code, w, length)[used]
    rest, no = np.divmod(used, size)
    return _Cells(
        np.bincount(code, score, length)[used] / n[used],
        (rest % size).astype(np.float64),
        no.astype(np.float64),
        np.asarray(sums * (len(w) / max(sums.sum(), TINY)), dtype=np.float64),
        n[used],
    )


def logit_bins(probability: ArrayLike) -> IntArray:
    """Return the bin, 0 to N_BINS - 1, of each probability: equal widths in the logit."""
    return _bins(_logits(probability))


def _bins(score: FloatArray) -> IntArray:
    low, high = LOGITS
    place = (score - low) * (N_BINS / (high - low))
    return np.clip(place.astype(np.int64), 0, N_BINS - 1)


def _logits(probability: ArrayLike) -> FloatArray:
    with np.errstate(divide="ignore"):
        return np.clip(logit(np.asarray(probability, dtype=np.float64)), *LOGITS)


def _em(cells: _Cells, model: PresenceModel, estimate_rates: bool) -> PresenceModel:
    for _ in range(MAX_ITERATIONS):
        if model.converged:
            break
        model = _em_step(cells, model, estimate_rates)
    return model


def _em_step(cells: _Cells, model: PresenceModel, estimate_rates: bool) -> PresenceModel:
    seen = np.asarray(expit(model.offset + model.slope * cells.score))
    prior = model.floor + (1 - model.floor) * seen
    present = np.asarray(expit(logit(prior) + model.evidence(cells.yes, cells.yes + cells.no)))
    blind = present * model.floor / prior
    offset, slope = _recalibrated(cells, model, present - blind, 1 - blind, seen)
    floor = ((cells.weight * blind).sum() + FLOOR_PRIOR[0]) / (cells.weight.sum() + sum(FLOOR_PRIOR))
    floor = float(np.clip(floor, *FLOOR_RANGE))
    moved = max(abs(offset - model.offset), abs(slope - model.slope), abs(np.log(floor / model.floor)))
    miss, false_alarm = _rates(cells, present) if estimate_rates else (model.miss, model.false_alarm)
    moved = max(moved, abs(miss - model.miss), abs(false_alarm - model.false_alarm))
    return PresenceModel(offset, slope, floor, miss, false_alarm, converged=bool(moved <= TOLERANCE))


def _recalibrated(
    cells: _Cells, model: PresenceModel, label: FloatArray, share: FloatArray, seen: FloatArray
) -> tuple[float, float]:
    """Return offset and slope after one Newton step of the weighted logistic regression."""
    design = np.stack([np.ones_like(cells.score), cells.score])
    precision = 1 / np.square(SPREADS)
    at = np.array([model.offset, model.slope])
    pull = design @ (cells.weight * (label - share * seen)) - precision * (at - [0, 1])
    curve = cells.weight * share * seen * (1 - seen)
    step = np.linalg.solve((design * curve) @ design.T + np.diag(precision), pull)
    offset, slope = at + np.clip(step, -1, 1)
    return float(offset), float(max(slope, LEAST_SLOPE))


def _rates(cells: _Cells, present: FloatArray) -> tuple[float, float]:
    here, away = cells.n * present, cells.n * (1 - present)
    miss = _share((here * cells.no).sum(), (here * cells.yes).sum())
    false_alarm = _share((away * cells.yes).sum(), (away * cells.no).sum())
    # Raters who are wrong more often than right have present and absent exchanged.
    return (miss, false_alarm) if miss + false_alarm < 1 else (1 - false_alarm, 1 - miss)


def _share(of: float, rest: float) -> float:
    return float((RATE_PRIOR[0] + of) / (sum(RATE_PRIOR) + of + rest))
