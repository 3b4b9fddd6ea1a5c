"""Relative correlation error against the number of evaluations, for combinations of methods."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from typing import Any

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

BUDGETS = (30, 60, 120, 240, 540, 900, 1800, 3600, 7200, 14_400)
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
    Combination("active", "bragg_siglip", most=3600),
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

    A repeat is one study of all pairs: draws with replacement, the smaller budgets (they ascend) the first
    draws of the larger; draws of an image share its votes. rce: mean over pairs and repeats of
    |rho_hat - rho| / |rho|; rce_median its median; bias the mean of (rho_hat - rho) / |rho|. Estimates that
    are undefined are left out and counted. bragg_siglip believes in an error rate of .23; bragg_em fits the
    presence model, error rates included, to each study.
    """
    one = partial(_repeat, images, tuple(combinations), raters, tuple(budgets), seed)
    if processes > 1:
        # Forked processes share the images; as an argument of each task they would be copied every time.
        pool = ProcessPoolExecutor(
            processes, mp_context=get_context("fork"), initializer=_hold, initargs=(one,)
        )
        with pool:
            errors = list(pool.map(_held, range(n_repeats)))
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


_HELD: list[Callable[[int], FloatArray]] = []


def _hold(one: Callable[[int], FloatArray]) -> None:
    _HELD[:] = [one]


def _held(repeat: int) -> FloatArray:
    return _HELD[0](repeat)


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
        sizes = {i: [b // design[1] for b in budgets if b <= combinations[i].most] for i in own}
        most = max(sizes.values(), key=len)
        drawn = _draw(images, *design, RATERS[raters], most[-1], seed, repeat)
        fitted = [i for i in own if combinations[i].aggregation == "bragg_em"]
        for i in own:
            if i not in fitted:
                value = _value(combinations[i].aggregation, drawn)
                found[i, :, : len(sizes[i])] = _importance(drawn, value, sizes[i])
        for b, size in enumerate(most):
            still = [i for i in fitted if b < len(sizes[i])]
            if still:
                found[still, :, b] = _fitted(images, [combinations[i].estimator for i in still], drawn, size)
    rho = images.rho[:, None]
    return (found - rho) / np.abs(rho)


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
        weight = 1 / (n_images * _taken(images.q[sampler], image))
    return _Drawn(
        _taken(images.activation, image).astype(np.float64),
        weight,
        _taken(images.probability, image).astype(np.float64),
        votes(_taken(images.present, image), image, n_raters, raters, _keys(seed, repeat, n_pairs)),
        n_raters,
    )


def _taken(rows: NDArray[Any], image: IntArray) -> NDArray[Any]:
    """Return what is at the images (P, n) of the rows (P, N); a row at a time stays in cache."""
    return np.array([row.take(own) for row, own in zip(rows, image, strict=True)])


def _searched(cumulated: FloatArray, u: FloatArray) -> IntArray:
    """Return the image of each u (n,). Sorting u first takes less time than it saves the search."""
    order = np.argsort(u)
    found = np.empty(len(u), dtype=np.int64)
    found[order] = np.searchsorted(cumulated, u[order], side="right")
    return np.minimum(found, len(cumulated) - 1)


def _keys(seed: int, repeat: int, n_pairs: int) -> Keys:
    """Return the same raters for every sampler of a repeat."""
    return keys(generator(seed, "simulation votes", repeat), n_pairs)


def _value(aggregation: str, drawn: _Drawn) -> FloatArray:
    if aggregation == "majority":
        return (np.sign(2 * drawn.yes - drawn.n_raters) + 1) / 2
    if aggregation == "bragg_siglip":
        return bragg(drawn.yes, drawn.n_raters, np.clip(drawn.probability, *PRIOR_RANGE), ERROR_RATE)
    raise AssayError(f"no curve for aggregation {aggregation!r}; known: majority, bragg_siglip, bragg_em")


def _importance(drawn: _Drawn, value: FloatArray, sizes: Sequence[int]) -> FloatArray:
    """Return the paper's estimates of all prefixes, from sums between one size and the next."""
    w, starts = drawn.weight[:, : sizes[-1]], np.array([0, *sizes[:-1]])
    c, a = value[:, : sizes[-1]], drawn.activation[:, : sizes[-1]]
    wc, wa = w * c, w * a
    sums = [np.add.reduceat(part, starts, axis=1).cumsum(axis=1) for part in (w, wc, wc * c, wa, wa * c)]
    moments = np.stack(sums, axis=-1) / np.array(sizes)[:, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        rho, _ = importance.correlation(moments, None)
    constant = np.stack([np.ptp(c[:, :size], axis=1) == 0 for size in sizes], axis=1)
    return np.where(constant, np.nan, rho)


def _fitted(images: Images, estimators: Sequence[str], drawn: _Drawn, size: int) -> list[FloatArray]:
    """Return each estimator's estimates (P,) of the first `size` draws, with this study's presence model."""
    w, s, yes = drawn.weight[:, :size], drawn.probability[:, :size], drawn.yes[:, :size]
    share = w / w.mean(axis=1, keepdims=True)
    model = fit_presence(s.ravel(), yes.ravel(), np.full(w.size, drawn.n_raters), share.ravel())
    prior = model.prior(s)
    n_images, probability, activation = images.bins.swapaxes(0, 1)
    known = population_of(model, n_images, probability, activation, np.array([drawn.n_raters]))
    sample = Sample(drawn.activation[:, :size], w, model.posterior(prior, yes, drawn.n_raters), prior)
    return [
        combined(sample, known).estimate.rho if name == "combined" else estimate(name, sample, known).rho
        for name in estimators
    ]


def evaluations_needed(evaluations: Sequence[float], rce: Sequence[float], target: float) -> float:
    """Return the evaluations from which on a curve is at the target or below; NaN where its end is above.

    Straight lines between points of log evaluations and log rce. The first point, an upper bound, where all
    of the curve is below the target. A curve that dips below it and comes back has not reached it: few
    evaluations can look good where an estimate leans on the scorer.
    """
    x, y = np.log(np.asarray(evaluations, dtype=np.float64)), np.log(np.asarray(rce, dtype=np.float64))
    level = np.log(target)
    above = np.flatnonzero(~(y <= level))
    if len(above) == 0:
        return float(evaluations[0])
    if (i := int(above[-1])) == len(y) - 1:
        return float("nan")
    share = (y[i] - level) / (y[i] - y[i + 1])
    return float(np.exp(x[i] + share * (x[i + 1] - x[i])))


def rce_at(evaluations: Sequence[float], rce: Sequence[float], at: float) -> float:
    """Return the rce of a curve at so many evaluations, by the same lines; NaN outside the curve."""
    x, y = np.log(np.asarray(evaluations, dtype=np.float64)), np.log(np.asarray(rce, dtype=np.float64))
    return float(np.exp(np.interp(np.log(at), x, y, left=np.nan, right=np.nan)))


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
