"""Relative correlation error against the number of evaluations, for combinations of methods."""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipeline.crowd.aggregation.posterior import ERROR_RATE, PRIOR_RANGE, bragg
from pipeline.crowd.arrays import FloatArray, IntArray
from pipeline.crowd.estimators import importance
from pipeline.crowd.estimators.combined import combined
from pipeline.crowd.estimators.estimating import estimate
from pipeline.crowd.estimators.sample import Sample
from pipeline.crowd.population import population_bins
from pipeline.crowd.presence import N_BINS, fit_presence, population_of
from pipeline.crowd.proposal import active_proposal, proposal
from pipeline.errors import AssayError
from pipeline.seeds import generator
from pipeline.simulation.raters import RATERS, Keys, Raters, keys, votes
from pipeline.simulation.worlds import Pair

BUDGETS = (60, 120, 240, 360, 540, 900, 1800, 3600, 7200, 14_400)
PAPER_TARGET = 0.275
PAPER_NEEDS = {
    "uniform+majority": 22_560,
    "uniform+bragg_siglip": 14_607,
    "mgis+majority": 1760,
    "mgis+bragg_siglip": 550,
}
"""Evaluations for an RCE of 27.5% in "Beyond Top Activations" (arXiv 2506.07985)."""


@dataclass(frozen=True)
class Combination:
    """A way to spend evaluations: sampler, aggregation, estimator, raters an image, budgets at most."""

    sampler: str
    aggregation: str
    estimator: str = "importance"
    n_raters: int = 3
    most: int = BUDGETS[-1]

    @property
    def name(self) -> str:
        """Return sampler+aggregation, and what differs from importance with three raters."""
        extra = "" if self.estimator == "importance" else f"+{self.estimator}"
        return f"{self.sampler}+{self.aggregation}{extra}" + (
            f" m={self.n_raters}" if self.n_raters != 3 else ""
        )


PAPER = tuple(
    Combination(sampler, aggregation)
    for sampler in ("uniform", "mgis")
    for aggregation in ("majority", "bragg_siglip")
)
OURS = (
    Combination("active", "bragg_em", "combined", most=3600),
    Combination("active", "bragg_em", "difference", most=3600),
    Combination("active", "bragg_em", "disattenuated", most=3600),
    Combination("mgis", "bragg_em", "difference", most=3600),
    Combination("active", "bragg_em", "combined", n_raters=5, most=3600),
)


@dataclass(frozen=True)
class Images:
    """What a simulation needs of P pairs: (P, N) each, and the cumulated proposals of the samplers.

    n_images, probability and activation of the bins (P, B).
    """

    rho: FloatArray
    activation: NDArray[np.float32]
    probability: NDArray[np.float32]
    present: NDArray[np.bool_]
    q: Mapping[str, FloatArray]
    cumulated: Mapping[str, FloatArray]
    bins: FloatArray


def images_of(pairs: Iterable[Pair], samplers: Sequence[str] = ("mgis", "active")) -> Images:
    """Return the pairs stacked, with the proposals (P, N) of the samplers."""
    listed = list(pairs)
    if not listed:
        raise AssayError(
            "the world has no pair whose truth is known and at least .05; take more units or texts"
        )
    proposals = {"mgis": proposal, "active": active_proposal}
    q = {name: np.array([proposals[name](p.activation, p.probability) for p in listed]) for name in samplers}
    return Images(
        np.array([pair.rho for pair in listed]),
        np.array([pair.activation for pair in listed], dtype=np.float32),
        np.array([pair.probability for pair in listed], dtype=np.float32),
        np.array([pair.present for pair in listed]),
        q,
        {name: rows.cumsum(axis=1) for name, rows in q.items()},
        np.array([_bins(pair) for pair in listed]),
    )


def _bins(pair: Pair) -> FloatArray:
    table = population_bins(pair.activation, pair.probability)
    known = np.zeros((3, N_BINS))
    known[1] = 0.5
    known[:, table["bin"]] = table[["n_images", "probability", "activation"]].to_numpy().T
    return known


def rce_curves(
    images: Images,
    combinations: Sequence[Combination],
    raters: str,
    *,
    budgets: Sequence[int] = BUDGETS,
    n_repeats: int = 100,
    seed: int = 0,
    processes: int = 1,
) -> pd.DataFrame:
    """Return combination, raters, evaluations, rce, rce_median, bias, n_undefined, in the order given.

    A repeat is one study of all pairs: draws with replacement, the smaller budgets the first draws of the
    larger; draws of an image share its votes. rce: mean over pairs and repeats of |rho_hat - rho| / |rho|;
    rce_median its median; bias the mean of (rho_hat - rho) / |rho|. Estimates that are undefined
    are left out and counted. bragg_siglip believes in an error rate of .23; bragg_em fits the presence
    model, error rates included, to each study.
    """
    one = partial(_repeat, images, tuple(combinations), raters, tuple(budgets), seed)
    if processes > 1:
        with ProcessPoolExecutor(processes, mp_context=get_context("fork")) as pool:
            errors = list(pool.map(one, range(n_repeats)))
    else:
        errors = [one(repeat) for repeat in range(n_repeats)]
    rows = [
        {"combination": combination.name, "raters": raters, "evaluations": budget}
        | _summary(np.array([found[i, :, b] for found in errors]))
        for i, combination in enumerate(combinations)
        for b, budget in enumerate(budgets)
        if budget <= combination.most
    ]
    return pd.DataFrame(rows)


def _summary(errors: FloatArray) -> dict[str, float]:
    known = errors[np.isfinite(errors)]
    size = np.abs(known)
    return {
        "rce": float(size.mean()) if len(known) else float("nan"),
        "rce_median": float(np.median(size)) if len(known) else float("nan"),
        "bias": float(known.mean()) if len(known) else float("nan"),
        "n_undefined": int(errors.size - len(known)),
    }


def _repeat(
    images: Images,
    combinations: tuple[Combination, ...],
    raters: str,
    budgets: tuple[int, ...],
    seed: int,
    repeat: int,
) -> FloatArray:
    """Return the relative errors (combinations, P, budgets) of one study."""
    found = np.full((len(combinations), len(images.rho), len(budgets)), np.nan)
    for design in dict.fromkeys((c.sampler, c.n_raters) for c in combinations):
        own = [i for i, c in enumerate(combinations) if (c.sampler, c.n_raters) == design]
        most = max(combinations[i].most for i in own)
        sizes = [budget // design[1] for budget in budgets if budget <= most]
        drawn = _draw(images, *design, RATERS[raters], sizes[-1], seed, repeat)
        for i in own:
            held = [size for size in sizes if size * design[1] <= combinations[i].most]
            estimates = _estimates(images, combinations[i], drawn, held)
            found[i, :, : len(held)] = (estimates - images.rho[:, None]) / np.abs(images.rho[:, None])
    return found


@dataclass(frozen=True)
class _Drawn:
    """The draws of a study (P, n), and how many of n_raters say yes to each."""

    activation: FloatArray
    weight: FloatArray
    probability: FloatArray
    yes: NDArray[np.int8]
    n_raters: int


def _draw(
    images: Images, sampler: str, n_raters: int, raters: Raters, n: int, seed: int, repeat: int
) -> _Drawn:
    rng = generator(seed, "simulation draws", sampler, repeat)
    n_pairs, n_images = images.activation.shape
    if sampler == "uniform":
        image = rng.integers(n_images, size=(n_pairs, n))
        weight = np.ones((n_pairs, n))
    else:
        image = np.array([_searched(row, rng.random(n)) for row in images.cumulated[sampler]])
        weight = 1 / (n_images * np.take_along_axis(images.q[sampler], image, axis=1))
    present, key = np.take_along_axis(images.present, image, axis=1), _keys(seed, repeat, n_pairs)
    return _Drawn(
        np.take_along_axis(images.activation, image, axis=1).astype(np.float64),
        weight,
        np.take_along_axis(images.probability, image, axis=1).astype(np.float64),
        votes(present, image, n_raters, raters, key),
        n_raters,
    )


def _searched(cumulated: FloatArray, u: FloatArray) -> IntArray:
    return np.minimum(np.searchsorted(cumulated, u, side="right"), len(cumulated) - 1)


def _keys(seed: int, repeat: int, n_pairs: int) -> Keys:
    """Return the same raters for every sampler of a repeat."""
    return keys(generator(seed, "simulation votes", repeat), n_pairs)


def _estimates(images: Images, combination: Combination, drawn: _Drawn, sizes: Sequence[int]) -> FloatArray:
    """Return the estimates (P, sizes) of the first draws of each size."""
    if combination.aggregation != "bragg_em":
        return _importance(drawn, _value(combination.aggregation, drawn), sizes)
    return np.stack([_fitted(images, combination.estimator, drawn, size) for size in sizes], axis=1)


def _value(aggregation: str, drawn: _Drawn) -> FloatArray:
    if aggregation == "majority":
        return (np.sign(2 * drawn.yes - drawn.n_raters) + 1) / 2
    if aggregation == "bragg_siglip":
        return bragg(drawn.yes, drawn.n_raters, np.clip(drawn.probability, *PRIOR_RANGE), ERROR_RATE)
    raise AssayError(f"no curve for aggregation {aggregation!r}; known: majority, bragg_siglip, bragg_em")


def _importance(drawn: _Drawn, value: FloatArray, sizes: Sequence[int]) -> FloatArray:
    """Return the paper's estimates of all prefixes, from sums between one size and the next."""
    w, starts = drawn.weight[:, : sizes[-1]], np.concatenate([[0], sizes[:-1]])
    c, a = value[:, : sizes[-1]], drawn.activation[:, : sizes[-1]]
    wc, wa = w * c, w * a
    sums = [np.add.reduceat(part, starts, axis=1).cumsum(axis=1) for part in (w, wc, wc * c, wa, wa * c)]
    moments = np.stack(sums, axis=-1) / np.array(sizes)[:, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        rho, _ = importance.correlation(moments, None)
    constant = np.stack([np.ptp(c[:, :size], axis=1) == 0 for size in sizes], axis=1)
    return np.where(constant, np.nan, rho)


def _fitted(images: Images, estimator: str, drawn: _Drawn, size: int) -> FloatArray:
    """Return the estimates (P,) of the first `size` draws, with the presence model of this study."""
    w, s, yes = drawn.weight[:, :size], drawn.probability[:, :size], drawn.yes[:, :size]
    n_ratings = np.full(w.size, drawn.n_raters)
    share = w / w.mean(axis=1, keepdims=True)
    model = fit_presence(s.ravel(), yes.ravel(), n_ratings, share.ravel())
    prior = model.prior(s)
    n_images, probability, activation = images.bins.swapaxes(0, 1)
    known = population_of(model, n_images, probability, activation, np.array([drawn.n_raters]))
    sample = Sample(drawn.activation[:, :size], w, model.posterior(prior, yes, drawn.n_raters), prior)
    if estimator == "combined":
        return combined(sample, known).estimate.rho
    return estimate(estimator, sample, known).rho


def evaluations_needed(evaluations: Sequence[float], rce: Sequence[float], target: float) -> float:
    """Return the evaluations at which a curve first reaches the target; NaN where it does not.

    Straight lines between points of log evaluations and log rce. NaN too where the curve is below the
    target at its first point already.
    """
    x, y = np.log(np.asarray(evaluations, dtype=np.float64)), np.log(np.asarray(rce, dtype=np.float64))
    below = np.flatnonzero(y <= np.log(target))
    if len(below) == 0 or below[0] == 0:
        return float("nan")
    i = int(below[0])
    share = (y[i - 1] - np.log(target)) / (y[i - 1] - y[i])
    return float(np.exp(x[i - 1] + share * (x[i] - x[i - 1])))


def needed_table(curves: pd.DataFrame, target: float) -> pd.DataFrame:
    """Return raters, combination, evaluations needed, the paper's, and times fewer than uniform+majority."""
    rows = []
    for (raters, name), part in curves.groupby(["raters", "combination"], sort=False):
        needed = evaluations_needed(part["evaluations"].tolist(), part["rce"].tolist(), target)
        rows.append(
            {
                "raters": raters,
                "combination": name,
                "evaluations": needed,
                "paper": PAPER_NEEDS.get(str(name)),
            }
        )
    table = pd.DataFrame(rows)
    base = table[table["combination"] == "uniform+majority"].set_index("raters")["evaluations"]
    return table.assign(times=table["raters"].map(base) / table["evaluations"])
