"""From several people's ratings of a pair to one value: its concept's presence."""

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.special import expit, logit

from pipeline.crowd.arrays import FloatArray, IntArray
from pipeline.errors import AssayError

METHODS = ("avg", "majority", "bragg_uniform", "bragg_siglip")
ERROR_RATE = 0.23
UNIFORM_PRIOR = 0.05
PRIOR_RANGE = (0.001, 0.999)
PAIR = ["image_id", "description"]


def bragg(
    yes: ArrayLike, n_ratings: ArrayLike, prior: ArrayLike, error_rate: ArrayLike = ERROR_RATE
) -> FloatArray:
    """Return the posterior that the concept is present, given `yes` of `n_ratings` votes.

    logit(posterior) = logit(prior) + (2 yes - n_ratings) ln((1 - error_rate) / error_rate).
    The arguments broadcast; scalars give a scalar; no ratings give the prior back. Raises AssayError
    for a prior outside (0, 1), an error rate outside (0, .5), or yes outside 0..n_ratings.
    Source: "Beyond Top Activations" (arXiv 2506.07985), BRAgg.
    """
    votes, total = np.asarray(yes, dtype=np.float64), np.asarray(n_ratings, dtype=np.float64)
    before, error = np.asarray(prior, dtype=np.float64), np.asarray(error_rate, dtype=np.float64)
    if not np.all((votes >= 0) & (votes <= total)):
        raise AssayError(f"yes is {votes} of {total} ratings; it must be in 0..n_ratings")
    _check_inside("prior", before, 1)
    _check_inside("error_rate", error, 0.5)
    posterior: FloatArray = expit(logit(before) + (total - 2 * votes) * logit(error))
    return posterior


def aggregate(
    ratings: pd.DataFrame,
    method: str,
    *,
    error_rate: float | None = None,
    prior: float | pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Return one row a pair: image_id, description, n_ratings, yes, value, flags.

    ratings has the columns image_id, description, worker, rating (bool or 0/1); rows come by first
    appearance. `avg`: the share of yes. `majority`: 1 or 0, a tie .5. `bragg_uniform`: BRAgg with
    one prior (None: .05). `bragg_siglip`: BRAgg with a table image_id, description, prior, clipped
    to [.001, .999]. error_rate None: .23; avg and majority use neither error rate nor prior.
    Flags, joined by ";": `tie` (as many yes as no), `prior_decides` (a unanimous vote that the prior
    overrules). Raises AssayError for an unknown method, a missing column, a rating that is neither
    yes nor no, a worker twice on a pair, a prior of the wrong kind, a pair without a prior.
    Source: "Beyond Top Activations" (arXiv 2506.07985), BRAgg and its baselines.
    """
    if method not in METHODS:
        raise AssayError(f"unknown aggregation {method!r}; known: {', '.join(METHODS)}")
    votes = _votes(ratings)
    yes, total = votes["yes"].to_numpy(dtype=np.int64), votes["n_ratings"].to_numpy(dtype=np.int64)
    if method == "avg":
        value = yes / total
    elif method == "majority":
        value = (np.sign(2 * yes - total) + 1) / 2
    else:
        value = bragg(
            yes, total, _priors(votes, method, prior), ERROR_RATE if error_rate is None else error_rate
        )
    return votes.assign(value=value, flags=_flags(yes, total, value))


def _votes(ratings: pd.DataFrame) -> pd.DataFrame:
    _check_columns("ratings", ratings, [*PAIR, "worker", "rating"])
    if not (legal := ratings["rating"].isin([0, 1])).all():
        row = int(np.flatnonzero(~legal)[0])
        raise AssayError(
            f"rating in row {row} of ratings is {ratings['rating'].iloc[row]}; it must be yes or no"
        )
    if (twice := ratings.duplicated([*PAIR, "worker"])).any():
        bad = ratings[twice].iloc[0]
        raise AssayError(
            f"worker {bad['worker']!r} rated image {bad['image_id']!r} with {bad['description']!r} more than "
            "once; keep one of these ratings"
        )
    votes = ratings[PAIR].assign(vote=ratings["rating"].astype(np.int64))
    groups = votes.groupby(PAIR, sort=False, observed=True, as_index=False)
    return groups.agg(n_ratings=("vote", "size"), yes=("vote", "sum"))


def _priors(votes: pd.DataFrame, method: str, prior: float | pd.DataFrame | None) -> FloatArray:
    if method == "bragg_uniform":
        if isinstance(prior, pd.DataFrame):
            raise AssayError(
                "bragg_uniform takes one prior, not a table; use bragg_siglip for a prior per pair"
            )
        return np.full(len(votes), UNIFORM_PRIOR if prior is None else prior)
    if not isinstance(prior, pd.DataFrame):
        raise AssayError(f"bragg_siglip needs a table image_id, description, prior; got {prior!r}")
    _check_columns("prior", prior, [*PAIR, "prior"])
    table = prior[[*PAIR, "prior"]].drop_duplicates()
    _check_prior_table(table)
    pairs = pd.MultiIndex.from_frame(votes[PAIR])
    priors = np.asarray(table.set_index(PAIR)["prior"].reindex(pairs), dtype=np.float64)
    if np.isnan(priors).any():
        bad = votes.iloc[int(np.flatnonzero(np.isnan(priors))[0])]
        raise AssayError(
            f"no prior for image {bad['image_id']!r} with {bad['description']!r}; add it to the table"
        )
    return np.clip(priors, *PRIOR_RANGE)


def _check_prior_table(table: pd.DataFrame) -> None:
    illegal = ~table["prior"].between(0, 1)
    if illegal.any():
        bad = table[illegal].iloc[0]
        raise AssayError(
            f"prior of image {bad['image_id']!r} with {bad['description']!r} is {bad['prior']}; "
            "it must be in [0, 1]"
        )
    if (twice := table.duplicated(PAIR)).any():
        bad = table[twice].iloc[0]
        raise AssayError(f"two priors for image {bad['image_id']!r} with {bad['description']!r}; keep one")


def _flags(yes: IntArray, total: IntArray, value: FloatArray) -> "pd.Series[str]":
    overruled = ((yes == total) & (value < 0.5)) | ((yes == 0) & (value > 0.5))
    flags = np.where(2 * yes == total, "tie", np.where(overruled, "prior_decides", ""))
    return pd.Series(flags, dtype="str")


def _check_columns(name: str, table: pd.DataFrame, columns: list[str]) -> None:
    if missing := [column for column in columns if column not in table]:
        raise AssayError(
            f"{name} lacks the column {missing[0]!r}; it has {', '.join(map(str, table.columns))}"
        )
    for column in columns:
        if table[column].isna().any():
            row = int(np.flatnonzero(table[column].isna())[0])
            raise AssayError(f"{column} in row {row} of {name} is missing")


def _check_inside(name: str, values: FloatArray, high: float) -> None:
    inside = (values > 0) & (values < high)
    if not inside.all():
        raise AssayError(f"{name} is {np.ravel(values)[~np.ravel(inside)][0]}; it must be in (0, {high:g})")
