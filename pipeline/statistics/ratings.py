"""What a sweep's ratings cost, and how far raters agree with each other and with the truth."""

from collections.abc import Iterable, Iterator, Sequence
from math import isnan

import numpy as np
import pandas as pd

from pipeline.crowd.agreement import (
    error_rates_from_gold,
    krippendorff_alpha,
    pairwise_agreement,
    worker_agreement,
)
from pipeline.statistics.cells import POOLED, Row, among, groups, identity_factors, is_seed, joined_flags
from pipeline.study.cost import bill
from pipeline.study.settings import StudySettings
from pipeline.study.tasks import PAIR, count_tasks

COST_COLUMNS = (
    "method", "n_units", "n_texts", "n_inputs", "n_ratings", "n_workers", "n_assignments", "dollars",
    "n_everything", "saved", "flags",
)  # fmt: skip
AGREEMENT_COLUMNS = (
    "method", "n_ratings", "n_shared", "n_workers", "yes", "agreement", "alpha", "worker_agreement_low",
    "worker_agreement_high", "n_known", "accuracy", "miss", "false_alarm", "worker_accuracy_low",
    "worker_accuracy_high", "flags",
)  # fmt: skip
SIMULATED = "simulated"
SPLITS = "dataset.split"
"""How the factors begin that change neither images nor what is true of them."""
RATING = [*PAIR, "worker", "assignment"]
"""What tells ratings apart."""
PAPER = StudySettings()
"""What a study asks and pays unless it says otherwise: the paper's."""


def cost_table(asked: pd.DataFrame, ratings: pd.DataFrame, factors: Sequence[str]) -> pd.DataFrame:
    """Return what the ratings of each group and method are, and how many asking about every image takes.

    asked: a row a question of a unit: factors, method, unit, image_id, description (a concept), n_images
    (that the unit is judged on). ratings: factors, method, image_id, description, worker, assignment,
    rating, source. A rating that several units or methods use counts once: n_inputs are distinct images and
    texts, and the row "all" is less than the sum of the methods. saved: 1 - n_ratings / n_everything, with
    as many ratings an input. n_assignments and dollars: of simulated raters what MTurk would take at PAPER's
    task size and reward, its fee included; of people the assignments that they did, dollars null.
    """
    both = _numbered(pd.concat([asked.assign(rated=False), ratings.assign(rated=True)]), factors)
    rows = [
        head | _cost(rows[~rows["rated"]], rows[rows["rated"]], factors) for head, rows in _by(both, factors)
    ]
    return pd.DataFrame(rows, columns=["level", *factors, *COST_COLUMNS])


def agreement_table(ratings: pd.DataFrame, factors: Sequence[str]) -> pd.DataFrame:
    """Return how far raters agree, in each group, by method and over "all".

    ratings: as in `cost_table`, and truth (0, 1, NaN where unknown). n_shared: inputs with two ratings or
    more, which alone say something of agreement; n_known: ratings whose truth is known. yes: their share.
    agreement and alpha as in `pipeline.crowd.agreement`; miss and false_alarm are plain shares of wrong
    answers. worker_*: of the rater with the lowest and the highest. What cannot be told is NaN, and flags
    say why: no_ratings, one_worker, one_rating_each, all_equal (so alpha is undefined), no_truth.
    """
    rows = [head | _agreement(rows) for head, rows in _by(_numbered(ratings, factors), factors)]
    return pd.DataFrame(rows, columns=["level", *factors, *AGREEMENT_COLUMNS])


def _by(table: pd.DataFrame, factors: Sequence[str]) -> Iterator[tuple[Row, pd.DataFrame]]:
    """Yield each group's rows of each method, by name, and of all of them where they are several."""
    for group in groups(table, factors):
        methods = sorted(set(group.rows["method"]))
        for method in methods:
            yield group.head | {"method": method}, group.rows[group.rows["method"] == method]
        if len(methods) > 1:
            yield group.head | {"method": POOLED}, group.rows


def _numbered(table: pd.DataFrame, factors: Sequence[str]) -> pd.DataFrame:
    """Return a table whose images, texts, workers and assignments are numbers, once for all groups.

    Images of two data sets may have one name, and under each seed of the crowd workers are other people.
    """
    place = [name for name in factors if among(name, ("dataset",)) and not name.startswith(SPLITS)]
    seeds = [name for name in factors if among(name, ("crowd",)) and is_seed(name)]
    apart = {**dict.fromkeys(PAIR, place), "worker": seeds, "assignment": []}
    numbers = {
        name: table.groupby([*by, name], sort=False, dropna=False).ngroup() for name, by in apart.items()
    }
    return table.assign(**numbers).reset_index(drop=True)


def _cost(asked: pd.DataFrame, ratings: pd.DataFrame, factors: Sequence[str]) -> Row:
    inputs = asked.drop_duplicates(PAIR)
    given = ratings.drop_duplicates(RATING)
    n_rated = len(given.drop_duplicates(PAIR))
    texts = asked.groupby("description")["n_images"].max()
    everything = float(texts.sum()) * (len(given) / n_rated if n_rated else np.nan)
    return {
        "n_units": len(asked[[*identity_factors(factors), "unit"]].drop_duplicates()),
        "n_texts": len(texts),
        "n_inputs": len(inputs),
        "n_ratings": len(given),
        "n_workers": given["worker"].nunique(),
        **_paid(inputs, given),
        "n_everything": everything,
        "saved": 1 - len(given) / everything if n_rated else np.nan,
        "flags": joined_flags(("no_ratings", not n_rated), ("unrated_inputs", 0 < n_rated < len(inputs))),
    }


def _paid(inputs: pd.DataFrame, given: pd.DataFrame) -> Row:
    if given.empty or (given["source"] != SIMULATED).any():
        return {"n_assignments": given["assignment"].nunique(), "dollars": np.nan}
    n_raters = int(given.groupby(PAIR).size().max())
    own = bill(count_tasks(inputs, PAPER.inputs_per_task), n_raters, PAPER.reward)
    return {"n_assignments": own.n_assignments, "dollars": float(own.total)}


def _agreement(ratings: pd.DataFrame) -> Row:
    given = ratings.drop_duplicates(RATING)
    n_shared = int((given.groupby(PAIR).size() > 1).sum())
    n_workers = given["worker"].nunique()
    equal = given["rating"].nunique() < 2
    known = given[given["truth"].notna()]
    return {
        "n_ratings": len(given),
        "n_shared": n_shared,
        "n_workers": n_workers,
        "yes": float(given["rating"].mean()) if len(given) else np.nan,
        "agreement": pairwise_agreement(given),
        "alpha": krippendorff_alpha(given),
        **_ends("worker_agreement", worker_agreement(given).values()),
        **_against_truth(known),
        "flags": joined_flags(
            ("one_worker", n_workers == 1),
            ("one_rating_each", n_workers > 1 and not n_shared),
            ("all_equal", bool(n_shared) and equal),
            ("no_truth", known.empty),
        ),
    }


def _against_truth(known: pd.DataFrame) -> Row:
    gold = known.assign(answer=known["truth"])[[*PAIR, "answer"]]
    counts = error_rates_from_gold(known, gold).counts
    right = known["rating"].astype(bool) == known["truth"].astype(bool)
    return {
        "n_known": len(known),
        "accuracy": float(right.mean()) if len(known) else np.nan,
        "miss": counts.n_missed / counts.n_present if counts.n_present else np.nan,
        "false_alarm": counts.n_alarmed / counts.n_absent if counts.n_absent else np.nan,
        **_ends("worker_accuracy", right.groupby(known["worker"]).mean()),
    }


def _ends(name: str, values: Iterable[float]) -> Row:
    """Return the lowest and the highest of the values that are known, NaN where none is."""
    known = [value for value in values if not isnan(value)]
    return {f"{name}_low": min(known, default=np.nan), f"{name}_high": max(known, default=np.nan)}
