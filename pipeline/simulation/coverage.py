"""How often the recommended interval holds the truth, in cells that were named in advance."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import binom, binomtest

from pipeline.crowd.aggregation.posterior import ERROR_RATE, PRIOR_RANGE, bragg
from pipeline.crowd.arrays import FloatArray, IntArray
from pipeline.crowd.estimators.combined import Combined, combined
from pipeline.crowd.estimators.estimating import Estimate, estimate
from pipeline.crowd.estimators.sample import Sample
from pipeline.crowd.population import population_bins
from pipeline.crowd.presence import N_BINS, PresenceModel, fit_presence, logit_bins, population_of
from pipeline.crowd.proposal import active_proposal
from pipeline.seeds import generator
from pipeline.simulation.raters import RATERS, Raters, keys, votes
from pipeline.simulation.worlds import CALIBRATIONS, N_IMAGES, Pair, synthetic_pair

FREQUENCIES = (0.1, 0.01, 0.001)
MISSED = (0.0, 0.2)
N_DRAWS = 180
N_RATERS = 3
PAIRS_A_STUDY = 20


@dataclass(frozen=True)
class Cell:
    """A concept's frequency, the scorer's calibration, the share of the concept's images that it misses."""

    frequency: float
    calibration: str
    missed: float


CELLS = tuple(Cell(*parts) for parts in product(FREQUENCIES, CALIBRATIONS, MISSED))


@dataclass(frozen=True)
class _Drawn:
    """The draws of a study's pairs (P, n), and what is known of all their images (P, B).

    by_truth (P, 3, 2, B): number, mean probability and mean activation of a bin's images without the concept,
    and of those with it.
    """

    rho: FloatArray
    image: IntArray
    activation: FloatArray
    weight: FloatArray
    probability: FloatArray
    present: FloatArray
    n_images: FloatArray
    bin_probability: FloatArray
    bin_activation: FloatArray
    by_truth: FloatArray


def coverage_rows(
    cell: Cell, n_pairs: int, seed: int, n_images: int = N_IMAGES
) -> Iterator[dict[str, object]]:
    """Yield a row for each kind of raters: how often the interval of `combined` holds the true rho.

    Studies of 20 pairs, 180 draws a pair by `active_proposal`, 3 raters; the presence model, error rates
    included, is fitted to each study. A pair without an interval counts as not covered. Beside it, on the
    same draws: how often the paper's protocol (`importance`; BRAgg with the scorer as prior and error rate
    .23, or for perfect raters the majority) holds the true rho, with the delta interval and by bootstrap;
    and how often the interval of `difference` holds what it is about, `rated_correlation`.
    """
    results: dict[str, list[FloatArray]] = {name: [] for name in RATERS}
    for study in range(-(-n_pairs // PAIRS_A_STUDY)):
        drawn = _draws(cell, seed, study, n_images)
        for name in RATERS:
            rng = generator(seed, "coverage votes", repr(cell), study, name)
            results[name].append(_study(drawn, name, rng))
    for name, parts in results.items():
        yield _row(cell, name, np.concatenate(parts, axis=1)[:, :n_pairs])


def _draws(cell: Cell, seed: int, study: int, n_images: int) -> _Drawn:
    parts = []
    for number in range(PAIRS_A_STUDY):
        rng = generator(seed, "coverage", repr(cell), study, number)
        pair = synthetic_pair(rng, cell.frequency, cell.calibration, cell.missed, n_images)
        while not np.isfinite(pair.rho):
            pair = synthetic_pair(rng, cell.frequency, cell.calibration, cell.missed, n_images)
        parts.append(_drawn_pair(pair, rng))
    return _Drawn(*(np.array(part) for part in zip(*parts, strict=True)))


def _drawn_pair(pair: Pair, rng: np.random.Generator) -> tuple[object, ...]:
    q = active_proposal(pair.activation, pair.probability)
    image = rng.choice(len(q), size=N_DRAWS, p=q)
    bins = population_bins(pair.activation, pair.probability)
    known = np.zeros((3, N_BINS))
    known[1] = 0.5
    known[:, bins["bin"]] = bins[["n_images", "probability", "activation"]].to_numpy().T
    weight = 1 / (len(q) * q[image])
    drawn = (pair.activation[image], weight, pair.probability[image], pair.present[image])
    return (pair.rho, image, *drawn, *known, _by_truth(pair))


def _by_truth(pair: Pair) -> FloatArray:
    code = logit_bins(pair.probability) + N_BINS * pair.present
    shape = (2, N_BINS)
    n = np.bincount(code, minlength=2 * N_BINS).reshape(shape).astype(np.float64)
    sums = [np.bincount(code, x, 2 * N_BINS).reshape(shape) for x in (pair.probability, pair.activation)]
    means = [part / np.maximum(n, 1) for part in sums]
    return np.stack([n, np.where(n > 0, means[0], 0.5), means[1]])


def rated_correlation(
    model: PresenceModel, by_truth: FloatArray, n_raters: int, raters: Raters
) -> FloatArray:
    """Return rho (...,) if every image were rated by n_raters raters and aggregated by the model.

    by_truth (..., 3, 2, B): see `_Drawn`. The posterior's mean, mean square and mean product with the
    activation are over all images and over the votes that these raters give; images of a bin have its mean
    probability.
    """
    n, probability, activation = np.moveaxis(by_truth, -3, 0)
    yes = np.arange(n_raters + 1)
    after = model.posterior(model.prior(probability)[..., None], yes, n_raters)
    chance = np.stack([binom.pmf(yes, n_raters, p) for p in (raters.false_alarm, 1 - raters.miss)])
    share = n / n.sum(axis=(-2, -1), keepdims=True)
    mean, square = ((x * chance[:, None]).sum(axis=-1) for x in (after, after**2))
    mu = (share * mean).sum(axis=(-2, -1))
    product = (share * activation * mean).sum(axis=(-2, -1))
    return np.asarray(product / np.sqrt((share * square).sum(axis=(-2, -1)) - mu**2))


def _study(drawn: _Drawn, raters: str, rng: np.random.Generator) -> FloatArray:
    """Return rho, the recommended estimate, low, high, flagged and leaning, and what holds its target (9, P).

    The last three, 0 or 1: the paper's delta interval, its bootstrap interval, and difference's interval.
    """
    yes = votes(drawn.present > 0, drawn.image, N_RATERS, RATERS[raters], keys(rng, len(drawn.rho)))
    n_ratings = np.full(yes.shape, N_RATERS)
    weight = drawn.weight / drawn.weight.mean(axis=1, keepdims=True)
    model = fit_presence(*(part.ravel() for part in (drawn.probability, yes, n_ratings, weight)))
    prior = model.prior(drawn.probability)
    known = population_of(
        model, drawn.n_images, drawn.bin_probability, drawn.bin_activation, np.array([N_RATERS])
    )
    sample = Sample(drawn.activation, drawn.weight, model.posterior(prior, yes, N_RATERS), prior)
    found: Combined = combined(sample, known)
    one, other = found.estimate, found.difference
    # As the pipeline does: votes that all say the same give no interval about the truth.
    told = (yes > 0).any(axis=1) & (yes < N_RATERS).any(axis=1)
    low, high = (np.where(told, bound, np.nan) for bound in (one.low, one.high))
    rated = rated_correlation(model, drawn.by_truth, N_RATERS, RATERS[raters])
    beside = [*_paper_holds(drawn, yes, rng, perfect=raters == "perfect"), _holds(other, rated)]
    return np.stack([drawn.rho, one.rho, low, high, found.rare_or_blind, found.uncertain, *beside]).astype(
        np.float64
    )


def _holds(found: Estimate, target: FloatArray) -> NDArray[np.bool_]:
    return (found.low <= target) & (target <= found.high)


def _paper_holds(
    drawn: _Drawn, yes: NDArray[np.int8], rng: np.random.Generator, *, perfect: bool
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    if perfect:
        value = (2 * yes > N_RATERS).astype(np.float64)
    else:
        value = bragg(yes, N_RATERS, np.clip(drawn.probability, *PRIOR_RANGE), ERROR_RATE)
    sample = Sample(drawn.activation, drawn.weight, value)
    resampled = estimate("importance", sample, interval="bootstrap", rng=rng)
    return _holds(estimate("importance", sample), drawn.rho), _holds(resampled, drawn.rho)


def _row(cell: Cell, raters: str, results: FloatArray) -> dict[str, object]:
    rho, found, low, high, flagged, leaning, paper, paper_bootstrap, difference = results
    holds = (low <= rho) & (rho <= high)
    interval = binomtest(int(holds.sum()), len(holds)).proportion_ci(method="wilson")
    marked = flagged > 0
    return {
        "frequency": cell.frequency,
        "calibration": cell.calibration,
        "missed": cell.missed,
        "raters": raters,
        "n_pairs": len(holds),
        "coverage": float(holds.mean()),
        "low": float(interval.low),
        "high": float(interval.high),
        "flagged": float(marked.mean()),
        "coverage_flagged": _mean(holds[marked]),
        "coverage_unflagged": _mean(holds[~marked]),
        "leaning": float((leaning > 0).mean()),
        "no_interval": int((~np.isfinite(low)).sum()),
        "rce": float(np.nanmean(np.abs(found - rho) / np.abs(rho))),
        "rce_median": float(np.nanmedian(np.abs(found - rho) / np.abs(rho))),
        "half_width": float(np.nanmedian((high - low) / 2 / np.abs(rho))),
        "coverage_paper": float(paper.mean()),
        "coverage_paper_bootstrap": float(paper_bootstrap.mean()),
        "coverage_difference": float(difference.mean()),
    }


def _mean(values: FloatArray) -> float:
    return float(values.mean()) if len(values) else float("nan")


def coverage_table(
    n_pairs: int, seed: int = 0, cells: Sequence[Cell] = CELLS, n_images: int = N_IMAGES
) -> pd.DataFrame:
    """Return the rows of all cells."""
    return pd.DataFrame([row for cell in cells for row in coverage_rows(cell, n_pairs, seed, n_images)])
