"""How often the recommended interval holds the truth, in cells that were named in advance."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import binomtest

from pipeline.crowd.arrays import FloatArray, IntArray
from pipeline.crowd.estimators.combined import Combined, combined
from pipeline.crowd.estimators.estimating import estimate
from pipeline.crowd.estimators.sample import Sample
from pipeline.crowd.population import population_bins
from pipeline.crowd.presence import N_BINS, fit_presence, population_of
from pipeline.crowd.proposal import active_proposal
from pipeline.seeds import generator
from pipeline.simulation.raters import RATERS, keys, votes
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
    """The draws of a study's pairs (P, n), and what is known of all their images (P, B)."""

    rho: FloatArray
    image: IntArray
    activation: FloatArray
    weight: FloatArray
    probability: FloatArray
    present: FloatArray
    n_images: FloatArray
    bin_probability: FloatArray
    bin_activation: FloatArray


def coverage_rows(
    cell: Cell, n_pairs: int, seed: int, n_images: int = N_IMAGES
) -> Iterator[dict[str, object]]:
    """Yield a row for each kind of raters: how often the interval of `combined` holds the true rho.

    Studies of 20 pairs, 180 draws a pair by `active_proposal`, 3 raters; the presence model, error rates
    included, is fitted to each study. A pair without an interval counts as not covered. Beside it the
    coverage of the true rho by the paper's protocol's own delta interval (the same draws, BRAgg with the
    scorer as prior, `importance`).
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
    return (pair.rho, image, *drawn, *known)


def _study(drawn: _Drawn, raters: str, rng: np.random.Generator) -> FloatArray:
    """Return rho, estimate, low, high, flagged, leaning, then the paper's estimate, low, high: (9, P)."""
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
    paper = _paper(drawn, yes, perfect=raters == "perfect")
    one = found.estimate
    return np.stack(
        [drawn.rho, one.rho, one.low, one.high, found.rare_or_blind, found.uncertain, *paper]
    ).astype(np.float64)


def _paper(
    drawn: _Drawn, yes: NDArray[np.int8], *, perfect: bool
) -> tuple[FloatArray, FloatArray, FloatArray]:
    from pipeline.crowd.aggregation.posterior import ERROR_RATE, PRIOR_RANGE, bragg

    if perfect:
        value = (2 * yes > N_RATERS).astype(np.float64)
    else:
        value = bragg(yes, N_RATERS, np.clip(drawn.probability, *PRIOR_RANGE), ERROR_RATE)
    found = estimate("importance", Sample(drawn.activation, drawn.weight, value))
    return found.rho, found.low, found.high


def _row(cell: Cell, raters: str, results: FloatArray) -> dict[str, object]:
    rho, found, low, high, flagged, leaning, _, paper_low, paper_high = results
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
        "coverage_paper": float(((paper_low <= rho) & (rho <= paper_high)).mean()),
    }


def _mean(values: FloatArray) -> float:
    return float(values.mean()) if len(values) else float("nan")


def coverage_table(
    n_pairs: int, seed: int = 0, cells: Sequence[Cell] = CELLS, n_images: int = N_IMAGES
) -> pd.DataFrame:
    """Return the rows of all cells."""
    return pd.DataFrame([row for cell in cells for row in coverage_rows(cell, n_pairs, seed, n_images)])
