"""How far raters agree: on all inputs, and each worker with the others."""

from collections import defaultdict
from collections.abc import Iterator

import pandas as pd


def pairwise_agreement(ratings: pd.DataFrame) -> float:
    """Return the share of pairs of ratings of one input that are equal; NaN where there is no pair.

    ratings has the columns image_id, description, worker, rating (bool or 0/1), each worker once an
    input. Every pair counts alike, so an input with more ratings counts more.
    """
    counts = _counts(ratings).values()
    equal = sum(yes * (yes - 1) + (n - yes) * (n - yes - 1) for yes, n in counts)
    return _ratio(equal, sum(n * (n - 1) for _, n in counts))


def krippendorff_alpha(ratings: pd.DataFrame) -> float:
    """Return Krippendorff's nominal alpha; any number of ratings an input, those with one do not count.

    1 for full agreement, about 0 for chance; NaN where no input has two ratings or all of them are
    equal. Columns as in `pairwise_agreement`.
    Source: K. Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011), nominal data.
    """
    counts = [(yes, n) for yes, n in _counts(ratings).values() if n > 1]
    n_yes, n_all = sum(yes for yes, _ in counts), sum(n for _, n in counts)
    if n_yes in (0, n_all):
        return float("nan")
    observed = sum(yes * (n - yes) / (n - 1) for yes, n in counts)
    return 1 - (n_all - 1) * observed / (n_yes * (n_all - n_yes))


def worker_agreement(ratings: pd.DataFrame) -> dict[str, float]:
    """Return each worker's share of pairs with another worker's rating that are equal; NaN without one.

    Columns as in `pairwise_agreement`.
    """
    counts = _counts(ratings)
    equal, pairs = defaultdict[str, int](int), defaultdict[str, int](int)
    for worker, (key, vote) in zip(ratings["worker"].tolist(), _votes(ratings), strict=True):
        yes, n = counts[key]
        equal[worker] += (yes if vote else n - yes) - 1
        pairs[worker] += n - 1
    return {worker: _ratio(equal[worker], n) for worker, n in pairs.items()}


def _counts(ratings: pd.DataFrame) -> dict[tuple[str, str], tuple[int, int]]:
    """Return how many said yes and how many rated, by input."""
    counts: dict[tuple[str, str], tuple[int, int]] = {}
    for key, vote in _votes(ratings):
        yes, n = counts.get(key, (0, 0))
        counts[key] = (yes + vote, n + 1)
    return counts


def _votes(ratings: pd.DataFrame) -> Iterator[tuple[tuple[str, str], int]]:
    inputs = zip(ratings["image_id"].tolist(), ratings["description"].tolist(), strict=True)
    return zip(inputs, map(int, ratings["rating"].tolist()), strict=True)


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else float("nan")
