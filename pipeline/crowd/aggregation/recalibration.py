"""The scorer's probabilities as priors, recalibrated on the votes of other images."""

import zlib
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, log_expit, logit

from pipeline.crowd.aggregation.error_model import ErrorModel, fit_error_model
from pipeline.crowd.aggregation.posterior import PRIOR_RANGE
from pipeline.crowd.aggregation.votes import BoolArray, Votes
from pipeline.crowd.arrays import FloatArray, IntArray

N_FOLDS = 5
SPREAD_OF_OFFSETS = 1.0
SPREAD_OF_SLOPE = 1.0
SPREAD_OF_LEVEL = 3.0
TOLERANCE = 1e-6
MAX_ITERATIONS = 200


@dataclass(frozen=True)
class Calibration:
    """logit(prior) = offset of the description + slope * logit(probability); offsets (D,), around level.

    log_posterior: what each iteration raised.
    """

    offsets: FloatArray
    level: float
    slope: float
    log_posterior: FloatArray
    converged: bool

    def prior(self, score: FloatArray, text: IntArray) -> FloatArray:
        """Return the priors (P,) for logits of probabilities (P,) and descriptions (P,), clipped."""
        return np.clip(expit(self.offsets[text] + self.slope * score), *PRIOR_RANGE)


@dataclass(frozen=True)
class Recalibrated:
    """prior (P,), clipped; trained (P,): other images had votes to learn from."""

    prior: FloatArray
    trained: BoolArray


def recalibrated_priors(
    votes: Votes,
    prior: FloatArray,
    weight: FloatArray,
    *,
    error_rate: float | tuple[float, float] | None = None,
) -> Recalibrated:
    """Return priors that fit the votes: those of a pair's own image never count for it.

    prior (P,) in (0, 1), weight (P,) positive: the importance of each pair. Images fall into five folds
    by a hash of their id; for each fold, error rates and `fit_calibration` see the other four. Without
    an image in them, priors stay as they are.
    """
    score, fold = logit(prior), _folds(votes)
    recalibrated, trained = prior.copy(), np.zeros(len(prior), dtype=bool)
    for one in np.unique(fold):
        inside, others = fold == one, fold != one
        if others.any():
            training = votes.of_pairs(others)
            model = fit_error_model(training, error_rate=error_rate)
            evidence = _evidence(training, model)
            found = fit_calibration(score[others], training.text, votes.n_texts, evidence, weight[others])
            recalibrated[inside] = found.prior(score[inside], votes.text[inside])
            trained |= inside
    return Recalibrated(recalibrated, trained)


def fit_calibration(
    score: FloatArray, text: IntArray, n_texts: int, evidence: FloatArray, weight: FloatArray
) -> Calibration:
    """Fit prior = expit(offset of the description + slope * score) to votes by EM, slope >= 0.

    score (P,): logits of the scorer's probabilities; text (P,) in 0..n_texts; evidence (P,): the log
    likelihood ratio of the votes for present against absent; weight (P,), scaled to a mean of 1. Offsets
    are N(level, 1), level N(0, 3), slope N(1, 1): no votes leave the scores as they are. The label is
    latent: the E-step is its posterior, the M-step one Newton step of the weighted logistic regression
    on it, halved until it gains.

    Why logistic with an offset each, and not isotonic: held-out log loss of the true labels at 3 votes,
    misses .17, false alarms .05, scores with slopes .5 to 1.5, one of them saturating. 1 description of
    180 / 540 pairs: logistic .306 / .324, isotonic .352 / .344. 40 descriptions of 180 pairs whose
    offsets spread by 1: offset each .325, one offset .367, isotonic .371, isotonic each .378. With
    no spread one offset is best: .308, against .311.
    Source: J. Platt, "Probabilistic Outputs for Support Vector Machines" (1999), on latent labels.
    """
    data = _Data(score, text, n_texts, evidence, weight / weight.mean() if len(weight) else weight)
    at = _Point(np.zeros(n_texts), 1.0, 0.0)
    trace = [_log_posterior(data, at)]
    converged = len(score) == 0
    while not converged and len(trace) < MAX_ITERATIONS:
        at = _m_step(data, at, expit(_logits(data, at) + evidence))
        trace.append(_log_posterior(data, at))
        converged = trace[-1] - trace[-2] <= TOLERANCE
    return Calibration(at.offsets, at.level, at.slope, np.array(trace), converged)


@dataclass(frozen=True)
class _Data:
    score: FloatArray
    text: IntArray
    n_texts: int
    evidence: FloatArray
    weight: FloatArray


@dataclass(frozen=True)
class _Point:
    offsets: FloatArray
    slope: float
    level: float


def _logits(data: _Data, at: _Point) -> FloatArray:
    return at.offsets[data.text] + at.slope * data.score


def _penalty(at: _Point) -> float:
    away = float(((at.offsets - at.level) ** 2).sum()) / SPREAD_OF_OFFSETS**2
    return (away + ((at.slope - 1) / SPREAD_OF_SLOPE) ** 2 + (at.level / SPREAD_OF_LEVEL) ** 2) / 2


def _log_posterior(data: _Data, at: _Point) -> float:
    logits = _logits(data, at)
    votes = np.logaddexp(log_expit(logits) + data.evidence, log_expit(-logits))
    return float(data.weight @ votes) - _penalty(at)


def _expected(data: _Data, at: _Point, present: FloatArray) -> float:
    logits = _logits(data, at)
    return float(data.weight @ (present * logits + log_expit(-logits))) - _penalty(at)


def _m_step(data: _Data, at: _Point, present: FloatArray) -> _Point:
    """Return a point where the expected log posterior is no lower."""
    now = _expected(data, at, present)
    offsets, slope, level = _newton(data, at, present)
    for _ in range(30):
        new = _Point(at.offsets + offsets, at.slope + slope, at.level + level)
        if _expected(data, new, present) >= now:
            return new
        offsets, slope, level = offsets / 2, slope / 2, level / 2
    return at


def _newton(data: _Data, at: _Point, present: FloatArray) -> tuple[FloatArray, float, float]:
    """Return the Newton step of offsets, slope and level; the offsets, D of them, are eliminated."""
    p = expit(_logits(data, at))
    pull, curve = data.weight * (present - p), data.weight * p * (1 - p)

    def by_text(part: FloatArray) -> FloatArray:
        return np.bincount(data.text, part, data.n_texts).astype(np.float64)

    tie, hold, keep = SPREAD_OF_OFFSETS**-2, SPREAD_OF_SLOPE**-2, SPREAD_OF_LEVEL**-2
    away = tie * (at.offsets - at.level)
    slopes = np.array([pull @ data.score - hold * (at.slope - 1), away.sum() - keep * at.level])
    corner = np.diag([curve @ data.score**2 + hold, tie * data.n_texts + keep])
    own = by_text(curve) + tie
    cross = np.column_stack([by_text(curve * data.score), np.full(data.n_texts, -tie)])
    pulls = by_text(pull) - away
    left = corner - cross.T @ (cross / own[:, None])
    right = slopes - cross.T @ (pulls / own)
    slope, level = np.linalg.solve(left, right)
    if at.slope + slope < 0:
        slope = -at.slope
        level = (right[1] - left[1, 0] * slope) / left[1, 1]
    return (pulls - cross @ np.array([slope, level])) / own, float(slope), float(level)


def _evidence(votes: Votes, model: ErrorModel) -> FloatArray:
    """Return the log likelihood ratio of each pair's votes, present against absent (P,)."""
    miss, alarm = model.miss[votes.text], model.false_alarm[votes.text]
    for_yes, for_no = np.log1p(-miss) - np.log(alarm), np.log(miss) - np.log1p(-alarm)
    return np.asarray(votes.yes * for_yes + (votes.n_ratings - votes.yes) * for_no)


def _folds(votes: Votes) -> IntArray:
    """Return each pair's fold (P,): the same for every pair of an image, whatever else is rated."""
    images = votes.pairs["image_id"].astype(object)
    folds = {image: zlib.crc32(str(image).encode()) % N_FOLDS for image in images.unique()}
    return images.map(folds).to_numpy(dtype=np.int64)
