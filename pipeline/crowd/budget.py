"""What accuracy to expect of a study, before anyone has rated: for this and for other budgets."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from pipeline.crowd.aggregation import PRIOR_RANGE, bragg
from pipeline.crowd.arrays import FloatArray, IntArray
from pipeline.crowd.correlation import drawn_correlation
from pipeline.seeds import generator

STUDIED = 40
"""Pairs of unit and text that are looked at; a sample where there are more."""
REPEATS = 25
TEXT = ["part", "method", "unit", "description"]


@dataclass(frozen=True)
class Expected:
    """What n draws and m raters give: the error of a score, and how many pairs were looked at.

    `error` is the mean of |score - truth|, `relative_error` the median of |score - truth| / |truth|;
    NaN where no score could be computed.
    """

    n_draws: int
    n_raters: int
    error: float
    relative_error: float
    n_pairs: int


def expected_errors(
    draws: pd.DataFrame,
    n_draws: Sequence[int],
    n_raters: Sequence[int],
    *,
    error_rate: float,
    prior: float | None,
    seed: int,
) -> list[Expected]:
    """Return what to expect for each number of draws and of raters, by simulation on the study's draws.

    Supposed: the scorer's probability is calibrated, so that each drawn image shows the text with
    that chance; raters err with `error_rate`; the drawn images stand for all (n draws are drawn anew
    from them, as a bootstrap does, against the score of all of them without rating errors). Ratings
    are aggregated by BRAgg with `prior`, or with the scorer's probability where it is None. draws
    has part, method, unit, description, image_id, activation, probability, weight; pairs whose
    activation is constant are left out.
    """
    groups = [group for _, group in draws.groupby(TEXT, sort=False) if group["activation"].notna().all()]
    if len(groups) > STUDIED:
        chosen = generator(seed, "budget").choice(len(groups), STUDIED, replace=False)
        groups = [groups[i] for i in sorted(chosen)]
    pairs = [_Pair.of(group) for group in groups]
    return [_expected(pairs, n, m, error_rate, prior, seed) for n in n_draws for m in n_raters]


@dataclass(frozen=True)
class _Pair:
    """One unit's draws, each (n,), with `image` the number of the distinct image drawn."""

    image: IntArray
    activation: FloatArray
    weight: FloatArray
    probability: FloatArray

    @classmethod
    def of(cls, group: pd.DataFrame) -> "_Pair":
        columns = (group[name].to_numpy(dtype=np.float64) for name in ("activation", "weight", "probability"))
        return cls(pd.factorize(group["image_id"])[0].astype(np.int64), *columns)


def _expected(
    pairs: Sequence[_Pair], n: int, m: int, error_rate: float, prior: float | None, seed: int
) -> Expected:
    # One stream a pair and repeat: budgets are compared on the same imagined truths, draws and raters.
    rows = [
        _once(pair, n, m, error_rate, prior, seed, f"{number} {repeat}")
        for number, pair in enumerate(pairs)
        for repeat in range(REPEATS)
    ]
    score, truth = np.array(rows, dtype=np.float64).reshape(-1, 2).T
    known = np.isfinite(score) & np.isfinite(truth)
    error = np.abs(score - truth)
    nonzero = known & (truth != 0)
    return Expected(
        n,
        m,
        float(error[known].mean()) if known.any() else float("nan"),
        float(np.median(error[nonzero] / np.abs(truth[nonzero]))) if nonzero.any() else float("nan"),
        len(pairs),
    )


def _once(
    pair: _Pair, n: int, m: int, error_rate: float, prior: float | None, seed: int, name: str
) -> tuple[float, float]:
    """Return the score of one imagined study, and the score without error."""
    first = np.unique(pair.image, return_index=True)[1]
    rng = generator(seed, "budget", name)
    present = rng.random(len(first)) < pair.probability[first]
    drawn = rng.integers(len(pair.image), size=n)
    wrong = generator(seed, "budget ratings", name).random((m, len(first))) < error_rate
    yes = (present ^ wrong).sum(axis=0)
    before = np.clip(pair.probability[first], *PRIOR_RANGE) if prior is None else prior
    value = np.asarray(bragg(yes, m, before, error_rate))
    score = drawn_correlation(pair.activation[drawn], pair.weight[drawn], value[pair.image[drawn]])
    truth = drawn_correlation(pair.activation, pair.weight, present[pair.image].astype(np.float64))
    return score, truth
