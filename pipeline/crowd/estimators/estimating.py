"""An estimate and its interval, by the delta method or by bootstrap, for any estimator of the registry."""

import warnings
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from pipeline.crowd.arrays import FloatArray, IntArray
from pipeline.crowd.estimators.registry import TARGETS, Estimator, estimator
from pipeline.crowd.estimators.sample import Population, Sample
from pipeline.errors import AssayError

BoolArray = NDArray[np.bool_]
N_BOOTSTRAP = 1000


@dataclass(frozen=True)
class Estimate:
    """Estimates (...,) with intervals about `target` ("truth" or "rated", see `registry.TARGETS`).

    std_error, df: of the delta method; low and high are NaN where there is no interval (one draw, or no
    variation). influence (..., n): what each draw adds to the estimate's error; their squares sum to
    std_error^2.
    """

    rho: FloatArray
    std_error: FloatArray
    df: FloatArray
    low: FloatArray
    high: FloatArray
    influence: FloatArray
    target: str


def estimate(
    name: str,
    sample: Sample,
    population: Population | None = None,
    *,
    confidence: float = 0.95,
    interval: Literal["delta", "bootstrap"] = "delta",
    rng: np.random.Generator | None = None,
) -> Estimate:
    """Return the estimate of `name` for a pair of unit and text, or for a batch of them.

    Delta: rho -+ t(df) std_error, df by Satterthwaite's rule from how unequal the draws' influences are: a
    few heavy draws make few degrees of freedom. Bootstrap: percentiles over 1,000 resamples of the draws
    within strata; needs rng. Draws without replacement are treated as draws with: that errs to the wide
    side, and their votes would vary even if every image were drawn. NaN where the presence is constant.
    Raises AssayError for an unknown name, missing predictions, or a bootstrap without rng.
    """
    chosen = estimator(name)
    terms = chosen.terms(sample, population)
    moments = terms.mean(axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        found, gradient = chosen.correlation(moments, population)
        rho = np.where(_varies(sample), found, np.nan)
        raw = np.einsum("...k,...kn->...n", gradient, terms - moments[..., None]) / terms.shape[-1]
        influence = _centred(raw, sample)
        variance = (influence**2).sum(axis=-1)
        df = _degrees(influence, variance, sample)
        error = np.where(np.isfinite(rho) & (variance > 0), np.sqrt(variance), np.nan)
    if interval == "delta":
        half = stats.t.ppf((1 + confidence) / 2, df) * error
        low, high = rho - half, rho + half
    else:
        low, high = _percentiles(_replicates(chosen, terms, sample, population, rng), confidence, error)
    return Estimate(rho, error, df, low, high, influence, TARGETS[name])


def _replicates(
    chosen: Estimator,
    terms: FloatArray,
    sample: Sample,
    population: Population | None,
    rng: np.random.Generator | None,
) -> FloatArray:
    """Return the estimates (N_BOOTSTRAP, ...) of resampled draws."""
    if rng is None:
        raise AssayError("a bootstrap interval needs rng, a local random generator")
    n = terms.shape[-1]
    times = np.concatenate(
        [_resampled(len(place), rng) for place in _places(sample, n)], axis=1, dtype=np.float64
    )
    order = np.concatenate(_places(sample, n))
    moments = np.einsum("bn,...kn->b...k", times / n, terms[..., order])
    with np.errstate(invalid="ignore", divide="ignore"):
        return chosen.correlation(moments, population)[0]


def _places(sample: Sample, n: int) -> list[IntArray]:
    """Return the draws of each stratum."""
    if sample.stratum is None:
        return [np.arange(n)]
    return [np.flatnonzero(sample.stratum == code) for code in np.unique(sample.stratum)]


def _resampled(n: int, rng: np.random.Generator) -> IntArray:
    """Return how often each of n draws is taken in each resample (N_BOOTSTRAP, n)."""
    return rng.multinomial(n, np.full(n, 1 / n), size=N_BOOTSTRAP)


def _percentiles(
    replicates: FloatArray, confidence: float, error: FloatArray
) -> tuple[FloatArray, FloatArray]:
    shares = ((1 - confidence) / 2, (1 + confidence) / 2)
    with np.errstate(invalid="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        low, high = np.nanquantile(replicates, shares, axis=0)
    known = np.isfinite(error)
    return np.where(known, low, np.nan), np.where(known, high, np.nan)


def _varies(sample: Sample) -> BoolArray:
    return np.asarray(np.ptp(sample.presence, axis=-1) > 0)


def _centred(influence: FloatArray, sample: Sample) -> FloatArray:
    """Return influences whose squares sum to the variance: centred within strata, with n / (n - 1)."""
    if sample.stratum is None:
        n = influence.shape[-1]
        return np.asarray(influence * np.sqrt(n / (n - 1))) if n > 1 else np.full_like(influence, np.nan)
    centred = np.empty_like(influence)
    for code in np.unique(sample.stratum):
        inside = sample.stratum == code
        part, n = influence[..., inside], int(inside.sum())
        inner = part - part.mean(axis=-1, keepdims=True)
        centred[..., inside] = inner * np.sqrt(n / (n - 1)) if n > 1 else part
    return centred


def _degrees(influence: FloatArray, variance: FloatArray, sample: Sample) -> FloatArray:
    """Return 2 V^2 / Var(V) (...,), between 1 and the draws less the strata."""
    n = influence.shape[-1]
    n_strata = 1 if sample.stratum is None else len(np.unique(sample.stratum))
    spread = ((influence**2 - variance[..., None] / n) ** 2).sum(axis=-1)
    found = np.where(spread > 0, 2 * variance**2 / spread, np.inf)
    return np.asarray(np.clip(np.nan_to_num(found, nan=1.0, posinf=np.inf), 1.0, max(1, n - n_strata)))
