"""One pair's score with its interval and its prior-sensitivity band, from its rated draws."""

from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy.special import expit, logit

from pipeline.crowd.arrays import FloatArray
from pipeline.crowd.composites import BAND, SHIFTED, is_composite
from pipeline.crowd.correlation import drawn_correlation
from pipeline.crowd.estimators.estimating import Estimate, estimate
from pipeline.crowd.estimators.registry import NAMES, PREDICTING
from pipeline.crowd.estimators.sample import Population, Sample
from pipeline.crowd.population import as_given
from pipeline.crowd.presence import PresenceModel, population_of
from pipeline.errors import AssayError
from pipeline.seeds import generator

TEXT = ["method", "unit", "description"]


@dataclass(frozen=True)
class Estimation:
    """Which estimator and which interval; prior: the values are posteriors, so priors have a band.

    name: of the registry, or "combined". seed: of the bootstrap.
    """

    name: str = "importance"
    confidence: float = 0.95
    interval: Literal["delta", "bootstrap"] = "delta"
    seed: int = 0
    prior: bool = False


PAPER = Estimation()


@dataclass(frozen=True)
class Known:
    """What a score needs beside its rated draws."""

    estimation: Estimation
    model: PresenceModel | None
    population: pd.DataFrame | None


@dataclass(frozen=True)
class Score:
    """An estimate, its interval about `target`, the band of other priors, and flags.

    influence: by image id, what its draws add to the estimate's error.
    """

    estimate: float
    low: float
    high: float
    target: str
    std_error: float
    band_low: float
    band_high: float
    flags: set[str]
    influence: dict[str, float] = field(default_factory=dict)

    def columns(self) -> dict[str, Any]:
        """Return the cells of the scoring table."""
        names = ("estimate", "low", "high", "target", "std_error", "band_low", "band_high")
        return {name: getattr(self, name) for name in names}


def score_of(key: Any, rated: pd.DataFrame, known: Known) -> Score:
    """Return the score of a pair's rated draws; key: method, unit, description.

    rated has activation, probability, weight, value, n_ratings and maybe stratum and image_id. NaN, without
    an interval, where activation or value is constant. Votes that all say the same tell nothing of the
    truth: no interval about it. Flag `no_variance`: NaN since the estimated variance is not above 0. Raises
    AssayError for an unknown estimator, or
    where it lacks probabilities or population.
    """
    name = known.estimation.name
    if name not in NAMES:
        raise AssayError(f"unknown estimator {name!r}; known: {', '.join(NAMES)}")
    rated = _centred(key, rated, known)
    middle, flags = _estimate(key, rated, known, 0.0)
    ends = (
        [_estimate(key, rated, known, shift)[0] for shift in (-BAND, BAND)] if known.estimation.prior else []
    )
    band = [float(end.rho) for end in ends] + [float(middle.rho)] if ends else [float("nan")]
    interval = bool(np.isfinite(middle.low) and np.isfinite(middle.high))
    interval &= not (middle.target == "truth" and _one_answer(rated))
    if np.isnan(middle.rho) and np.ptp(rated["value"]) > 0 and rated["activation"].notna().all():
        flags = flags | {"no_variance"}
    return Score(
        estimate=_as_published(rated) if name == "importance" else float(middle.rho),
        low=float(middle.low) if interval else float("nan"),
        high=float(middle.high) if interval else float("nan"),
        target=middle.target if interval else "",
        std_error=float(middle.std_error),
        band_low=min(band),
        band_high=max(band),
        flags=flags | (set() if interval else {"no_interval"}),
        influence=_by_image(rated, middle.influence) if interval else {},
    )


def _centred(key: Any, rated: pd.DataFrame, known: Known) -> pd.DataFrame:
    """Take the scorer's mean over all images from a composite's values, which no correlation depends on.

    The moments of estimators that do not divide by the mean weight are noisy where the mean is far from 0,
    as that of a negation or of a weighted sum may be.
    """
    if known.population is None or predicts(known.estimation.name) or not is_composite(rated).any():
        return rated
    bins = _bins(key, known.population)
    mean = float(np.average(bins["probability"], weights=bins["n_images"]))
    return rated.assign(**{name: rated[name] - mean for name in ("value", *SHIFTED)})


def _one_answer(rated: pd.DataFrame) -> bool:
    yes, n_ratings = rated["yes"].to_numpy(), rated["n_ratings"].to_numpy()
    return bool((yes == 0).all() or (yes == n_ratings).all())


def _estimate(key: Any, rated: pd.DataFrame, known: Known, shift: float) -> tuple[Estimate, set[str]]:
    settings = known.estimation
    sample, population = _sample(rated, known, shift), _population(key, rated, known, shift)
    options: dict[str, Any] = {"confidence": settings.confidence, "interval": settings.interval}
    if settings.interval == "bootstrap":
        options["rng"] = generator(settings.seed, "bootstrap", *key)
    if settings.name != "combined":
        return estimate(settings.name, sample, population, **options), set()
    assert population is not None
    found = import_module("pipeline.crowd.estimators.combined").combined(sample, population, **options)
    raised = {"rare_or_blind": found.rare_or_blind, "leans_on_scorer": found.uncertain}
    return found.estimate, {word for word, holds in raised.items() if bool(holds)}


def _sample(rated: pd.DataFrame, known: Known, shift: float) -> Sample:
    prediction = None
    if predicts(known.estimation.name):
        prediction = _column(rated, "probability")
        if not is_composite(rated).any():
            prediction = replace(_model(known), shift=shift).prior(prediction)
    stratum = rated["stratum"].to_numpy() if "stratum" in rated else None
    activation, weight = _column(rated, "activation"), _column(rated, "weight")
    return Sample(activation, weight, _value(rated, shift), prediction, stratum)


def _value(rated: pd.DataFrame, shift: float) -> FloatArray:
    """Return the values if the odds of each concept before the votes were exp(shift) times as high."""
    value = _column(rated, "value")
    if not shift:
        return value
    if is_composite(rated).any():
        return _column(rated, next(name for name, moved in SHIFTED.items() if moved == shift))
    return np.asarray(expit(logit(value) + shift))


def _population(key: Any, rated: pd.DataFrame, known: Known, shift: float) -> Population | None:
    if not predicts(known.estimation.name):
        return None
    table = known.population
    if table is None:
        raise AssayError(
            f"estimator={known.estimation.name} needs the scorer's means over all images (population.parquet "
            "of the study), and this study was frozen without them; take estimator=importance"
        )
    bins = _bins(key, table)
    if is_composite(rated).any():
        return as_given(bins)
    return population_of(
        replace(_model(known), shift=shift),
        bins["n_images"].to_numpy(),
        bins["probability"].to_numpy(np.float64),
        bins["activation"].to_numpy(np.float64),
        rated.drop_duplicates("image_id")["n_ratings"].to_numpy(np.int64),
    )


def _bins(key: Any, table: pd.DataFrame) -> pd.DataFrame:
    bins = table[np.logical_and.reduce([table[name] == part for name, part in zip(TEXT, key, strict=True)])]
    if bins.empty:
        raise AssayError(f"population.parquet has no row for unit {key[1]} of {key[0]} with {key[2]!r}")
    return bins


def predicts(name: str) -> bool:
    """Return whether the estimator of that name needs predictions."""
    return name in PREDICTING


def _model(known: Known) -> PresenceModel:
    if known.model is None:
        raise AssayError(f"estimator={known.estimation.name} needs the scorer's probabilities as predictions")
    return known.model


def _as_published(rated: pd.DataFrame) -> float:
    return drawn_correlation(*(_column(rated, name) for name in ("activation", "weight", "value")))


def _column(rated: pd.DataFrame, name: str) -> FloatArray:
    if name not in rated:
        raise AssayError(f"the study lacks the column {name!r}, which this estimator needs")
    return rated[name].to_numpy(dtype=np.float64)


def _by_image(rated: pd.DataFrame, influence: FloatArray) -> dict[str, float]:
    sums = pd.Series(influence, index=rated["image_id"].to_numpy()).groupby(level=0).sum()
    return {str(image): float(value) for image, value in sums.items()}
