"""The budget planner: what a rated pilot says about studies that were not made yet."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd

from pipeline.crowd.aggregation.posterior import ERROR_RATE, PRIOR_RANGE, bragg
from pipeline.crowd.aggregation.votes import PAIR, count_votes
from pipeline.crowd.arrays import FloatArray
from pipeline.crowd.composites import is_composite
from pipeline.crowd.estimators.combined import combined
from pipeline.crowd.estimators.estimating import estimate
from pipeline.crowd.estimators.sample import Population, Sample
from pipeline.crowd.presence import PresenceModel, fit_presence
from pipeline.errors import AssayError
from pipeline.seeds import generator

STUDIED = 30
REPEATS = 10
LEAST_TRUTH = 0.05
TEXT = ["part", "method", "unit", "description"]


@dataclass(frozen=True)
class Design:
    """A way to spend money: sampler, aggregation and estimator."""

    sampler: str
    aggregation: str
    estimator: str


DESIGNS = (
    Design("uniform", "majority", "importance"),
    Design("mgis", "bragg_siglip", "importance"),
    Design("mgis", "bragg_em", "difference"),
    Design("active", "bragg_em", "combined"),
)


@dataclass(frozen=True)
class _Pilot:
    """One pair's distinct drawn images: they stand for all, each with its share of the images."""

    share: FloatArray
    activation: FloatArray
    probability: FloatArray
    posterior: FloatArray


def plan_budget(
    draws: pd.DataFrame,
    ratings: pd.DataFrame,
    *,
    n_inputs: Sequence[int],
    n_raters: Sequence[int],
    designs: Sequence[Design] = DESIGNS,
    seed: int = 0,
) -> pd.DataFrame:
    """Return what each design, number of images and number of raters would give: a row each.

    sampler, aggregation, estimator, n_inputs, n_raters; rce (mean of |score - truth| / |truth| over pairs
    with |truth| >= .05), error (mean of |score - truth|), width (median of high - low), n_pairs.
    Parametric bootstrap of the pilot: its rated images stand for all, by their importance weights; each
    shows the text with the posterior of `fit_presence`; raters err as that model says. Studies are drawn
    from these by the sampler (with replacement), and scored with the model's error rates known. At most 30
    pairs, 10 repeats. draws: study.parquet with `part`; ratings as `aggregate` takes them. Raises
    AssayError where no draw has been rated.
    """
    pilots, model = _pilots(draws, ratings, seed)
    rows = []
    for design, n, m in product(designs, n_inputs, n_raters):
        found = np.concatenate(
            [_studies(pilot, model, design, n, m, seed, number) for number, pilot in enumerate(pilots)],
            axis=1,
        )
        rows.append(
            {
                "sampler": design.sampler,
                "aggregation": design.aggregation,
                "estimator": design.estimator,
                "n_inputs": n,
                "n_raters": m,
            }
            | _expected(*found)
            | {"n_pairs": len(pilots)}
        )
    return pd.DataFrame(rows)


def cheapest(plan: pd.DataFrame, width: float) -> pd.DataFrame:
    """Return the plan's cheapest row (its column `cost`) whose interval is at most that wide; or no row.

    Only designs whose interval is about the truth count (estimator combined): a narrow interval about what a
    biased study would give is no bargain. Of equal costs the narrower comes first.
    """
    enough = plan[(plan["estimator"] == "combined") & (plan["width"] <= width)]
    return enough.sort_values(["cost", "width"], kind="stable").head(1)


def _expected(truth: FloatArray, score: FloatArray, low: FloatArray, high: FloatArray) -> dict[str, float]:
    known = np.isfinite(score) & np.isfinite(truth)
    error = np.abs(score - truth)
    large = known & (np.abs(truth) >= LEAST_TRUTH)
    widths = (high - low)[np.isfinite(high - low)]
    return {
        "rce": float((error[large] / np.abs(truth[large])).mean()) if large.any() else float("nan"),
        "error": float(error[known].mean()) if known.any() else float("nan"),
        "width": float(np.median(widths)) if len(widths) else float("nan"),
    }


def _pilots(draws: pd.DataFrame, ratings: pd.DataFrame, seed: int) -> tuple[list[_Pilot], PresenceModel]:
    draws = draws[~is_composite(draws)]
    own = ratings.merge(draws[PAIR].drop_duplicates(), on=PAIR, validate="m:1")
    if own.empty:
        raise AssayError(
            "no draw of the pilot with a text of one concept has a rating; collect ratings first (assay "
            "ingest), then plan"
        )
    votes = count_votes(own)
    rated = draws.merge(votes.pairs.assign(yes=votes.yes, n_ratings=votes.n_ratings), on=PAIR, validate="m:1")
    rated = rated[rated["activation"].notna()]
    mean = rated.groupby(TEXT)["weight"].transform("mean")
    model = fit_presence(rated["probability"], rated["yes"], rated["n_ratings"], rated["weight"] / mean)
    prior = model.prior(rated["probability"])
    rated = rated.assign(posterior=model.posterior(prior, rated["yes"], rated["n_ratings"]))
    groups = [group for _, group in rated.groupby(TEXT, sort=False) if len(group["image_id"].unique()) > 1]
    if len(groups) > STUDIED:
        chosen = generator(seed, "planning").choice(len(groups), STUDIED, replace=False)
        groups = [groups[i] for i in sorted(chosen)]
    return [_pilot(group) for group in groups], model


def _pilot(group: pd.DataFrame) -> _Pilot:
    images = group.groupby("image_id", sort=False)
    table = images.agg(
        weight=("weight", "sum"),
        activation=("activation", "first"),
        probability=("probability", "first"),
        posterior=("posterior", "first"),
    )
    share = table["weight"].to_numpy(np.float64)
    share = share / share.sum()
    a = table["activation"].to_numpy(np.float64)
    centred = a - share @ a
    spread = float(np.sqrt(share @ centred**2))
    return _Pilot(
        share,
        centred / spread if spread > 0 else np.full_like(a, np.nan),
        table["probability"].to_numpy(np.float64),
        table["posterior"].to_numpy(np.float64),
    )


def _studies(
    pilot: _Pilot, model: PresenceModel, design: Design, n: int, m: int, seed: int, number: int
) -> FloatArray:
    """Return truth, score, low and high of imagined studies of one pair: (4, repeats)."""
    rng = generator(seed, "planning truths", number)
    present = rng.random((REPEATS, len(pilot.share))) < pilot.posterior
    mu = present @ pilot.share
    with np.errstate(invalid="ignore", divide="ignore"):
        truth = (present * pilot.activation) @ pilot.share / np.sqrt(mu * (1 - mu))
    q = _proposal(pilot, design.sampler)
    drawn = generator(seed, "planning draws", design.sampler, number).choice(len(q), size=(REPEATS, n), p=q)
    shown = np.take_along_axis(present, drawn, axis=1)
    chance = np.where(shown, 1 - model.miss, model.false_alarm)
    yes = generator(seed, "planning votes", number, m).binomial(m, chance)
    score, low, high = _scores(pilot, model, design, drawn, yes, (pilot.share / q)[drawn], m)
    return np.stack([truth, score, low, high])


def _proposal(pilot: _Pilot, sampler: str) -> FloatArray:
    """Return the sampler's chances of the pilot's images: by the image, times the share it stands for."""
    share, a, s = pilot.share, pilot.activation, pilot.probability
    mu = float(share @ s)
    sd = float(np.sqrt(share @ (s - mu) ** 2))
    if sampler == "uniform" or not sd > 0 or np.isnan(a).any():
        return share
    product = share * np.abs(a * (s - mu))
    mgis = product / product.sum()
    if sampler == "mgis":
        return np.asarray(0.8 * mgis + 0.2 * share)
    rho = float(share @ (a * (s - mu))) / sd
    moved = np.abs(a - rho * (1 - 2 * mu) / (2 * np.sqrt(mu * (1 - mu))))
    score = share * moved * np.sqrt(s * (1 - s) + 0.1 * mu)
    return np.asarray(0.9 * (mgis + score / score.sum()) / 2 + 0.1 * share)


def _scores(
    pilot: _Pilot,
    model: PresenceModel,
    design: Design,
    drawn: np.ndarray,
    yes: np.ndarray,
    weight: FloatArray,
    m: int,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    a, s = pilot.activation[drawn], pilot.probability[drawn]
    if design.aggregation == "majority":
        value = (np.sign(2 * yes - m) + 1) / 2
    elif design.aggregation == "bragg_siglip":
        value = bragg(yes, m, np.clip(s, *PRIOR_RANGE), ERROR_RATE)
    else:
        value = model.posterior(model.prior(s), yes, m)
    prior, every = model.prior(s), model.prior(pilot.probability)
    sample = Sample(a, weight, value, prior)
    known = _known(pilot, model, every, m)
    if design.estimator == "combined":
        found = combined(sample, known).estimate
    else:
        found = estimate(design.estimator, sample, known)
    return found.rho, found.low, found.high


def _known(pilot: _Pilot, model: PresenceModel, prior: FloatArray, m: int) -> Population:
    spread = prior * (1 - prior)
    mean = pilot.share @ prior
    seen = model.seen(pilot.probability)
    values = (
        mean,
        pilot.share @ (pilot.activation * prior),
        pilot.share @ prior**2,
        pilot.share @ spread,
        pilot.share @ (spread * model.reliability(prior, m)),
        pilot.share @ (model.floor * (1 - seen)) / mean,
    )
    return Population(*(np.full(REPEATS, value) for value in values))
