"""How far raters agree: on all inputs, each worker with the others, and all with gold answers."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from pipeline.crowd.aggregation.votes import PAIR, check_columns
from pipeline.crowd.arrays import IntArray
from pipeline.errors import AssayError


def pairwise_agreement(ratings: pd.DataFrame) -> float:
    """Return the share of pairs of ratings of one input that are equal; NaN where there is no pair.

    ratings has the columns image_id, description, worker, rating (bool or 0/1), each worker once an
    input. Every pair counts alike, so an input with more ratings counts more.
    """
    yes, n = _counts(*_votes(ratings))
    return _ratio(int((yes * (yes - 1) + (n - yes) * (n - yes - 1)).sum()), int((n * (n - 1)).sum()))


def krippendorff_alpha(ratings: pd.DataFrame) -> float:
    """Return Krippendorff's nominal alpha; any number of ratings an input, those with one do not count.

    1 for full agreement, about 0 for chance; NaN where no input has two ratings or all of them are
    equal. Columns as in `pairwise_agreement`.
    Source: K. Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011), nominal data.
    """
    yes, n = _counts(*_votes(ratings))
    yes, n = yes[n > 1], n[n > 1]
    n_yes, n_all = int(yes.sum()), int(n.sum())
    if n_yes in (0, n_all):
        return float("nan")
    observed = float((yes * (n - yes) / (n - 1)).sum())
    return 1 - (n_all - 1) * observed / (n_yes * (n_all - n_yes))


def worker_agreement(ratings: pd.DataFrame) -> dict[str, float]:
    """Return each worker's share of pairs with another worker's rating that are equal; NaN without one.

    Columns as in `pairwise_agreement`; workers come by first appearance.
    """
    inputs, vote = _votes(ratings)
    yes, n = (count[inputs] for count in _counts(inputs, vote))
    worker, names = pd.factorize(ratings["worker"], use_na_sentinel=False)
    equal, pairs = (np.zeros(len(names), dtype=np.int64) for _ in range(2))
    np.add.at(equal, worker, np.where(vote == 1, yes, n - yes) - 1)
    np.add.at(pairs, worker, n - 1)
    return {name: _ratio(int(equal[i]), int(pairs[i])) for i, name in enumerate(pd.Index(names).tolist())}


def error_rate_from_disagreement(ratings: pd.DataFrame) -> float:
    """Return the raters' error rate (1 - sqrt(1 - 2 d)) / 2, d the share of pairs of ratings that differ.

    Valid only where a miss and a false alarm are equally likely, and errors independent: two ratings of
    an input then differ with d = 2 e (1 - e), whatever the answer. It is the rate below .5 of the two
    that fit. From d = .5 on the rate is .5: guessing. NaN where no input has two ratings. Columns as
    in `pairwise_agreement`.
    """
    differ = 1 - pairwise_agreement(ratings)
    return differ if math.isnan(differ) else (1 - math.sqrt(max(0.0, 1 - 2 * differ))) / 2


@dataclass(frozen=True)
class GoldCounts:
    """Ratings of inputs with a gold answer; reasons: why a rate is NaN."""

    n_present: int
    n_missed: int
    n_absent: int
    n_alarmed: int
    reasons: tuple[str, ...]


class GoldRates(NamedTuple):
    """P(no | the gold answer is yes), P(yes | it is no), and what was counted."""

    miss: float
    false_alarm: float
    counts: GoldCounts


def error_rates_from_gold(ratings: pd.DataFrame, gold: pd.DataFrame) -> GoldRates:
    """Return how often raters miss and imagine what gold answers say: (x + 1/2) / (n + 1) each.

    gold has the columns image_id, description, answer (bool or 0/1); inputs that are only in one of the
    tables do not count. The half (the mean under Jeffreys' prior, Beta(1/2, 1/2)) keeps a rate that
    was never seen above 0. Without a rating of an input whose answer is yes, miss is NaN, without one
    whose answer is no, false_alarm; counts.reasons says so. Raises AssayError for a missing column or
    value, an answer that is neither yes nor no, and two answers to one input.
    """
    check_columns("ratings", ratings, [*PAIR, "rating"])
    both = ratings[[*PAIR, "rating"]].merge(_answers(gold), on=PAIR)
    present, said = both["answer"].astype(bool).to_numpy(), both["rating"].astype(bool).to_numpy()
    n_present, n_missed = int(present.sum()), int((present & ~said).sum())
    n_absent, n_alarmed = int((~present).sum()), int((~present & said).sum())
    seen = {"yes, so misses": n_present, "no, so false alarms": n_absent}
    reasons = tuple(
        f"no rated input has the gold answer {rate} are unknown" for rate, n in seen.items() if not n
    )
    counts = GoldCounts(n_present, n_missed, n_absent, n_alarmed, reasons)
    return GoldRates(_jeffreys(n_missed, n_present), _jeffreys(n_alarmed, n_absent), counts)


def _answers(gold: pd.DataFrame) -> pd.DataFrame:
    check_columns("gold", gold, [*PAIR, "answer"])
    if not (legal := gold["answer"].isin([0, 1])).all():
        row = int(np.flatnonzero(~legal)[0])
        raise AssayError(f"answer in row {row} of gold is {gold['answer'].iloc[row]}; it must be yes or no")
    rows = gold[[*PAIR, "answer"]].drop_duplicates()
    if (twice := rows.duplicated(PAIR)).any():
        bad = rows[twice].head(1).to_dict("records")[0]
        raise AssayError(
            f"two gold answers to image {bad['image_id']!r} with {bad['description']!r}; keep one"
        )
    return rows


def _jeffreys(count: int, n: int) -> float:
    return (count + 0.5) / (n + 1) if n else float("nan")


def _votes(ratings: pd.DataFrame) -> tuple[IntArray, IntArray]:
    """Return the number of each rating's input, and 1 for yes, 0 for no (n,)."""
    inputs = ratings.groupby(PAIR, sort=False, observed=True, dropna=False).ngroup()
    return np.asarray(inputs, dtype=np.int64), np.asarray(ratings["rating"].astype(np.int64), dtype=np.int64)


def _counts(inputs: IntArray, vote: IntArray) -> tuple[IntArray, IntArray]:
    """Return how many said yes and how many rated, by input."""
    n = np.bincount(inputs).astype(np.int64)
    return np.bincount(inputs[vote == 1], minlength=len(n)).astype(np.int64), n


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else float("nan")
