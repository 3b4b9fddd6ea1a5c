"""The scoring table: one row a unit and text, from people, from the scorer, or from attributes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipeline.composition import Linear, combine, concepts_of
from pipeline.crowd.arrays import FloatArray, is_constant
from pipeline.crowd.composites import SHIFTED, compositions, is_linear
from pipeline.crowd.correlation import correlation
from pipeline.crowd.estimation import PAPER, Estimation, Known, score_of
from pipeline.crowd.presence import PresenceModel
from pipeline.errors import AssayError

COLUMNS = [
    "method", "unit", "description", "estimate", "low", "high", "target", "std_error",
    "band_low", "band_high", "n_images", "n_ratings", "flags",
]  # fmt: skip
PAIR = ["image_id", "description"]
TEXT = ["method", "unit", "description"]
STUDY = [*TEXT, "composition", "image_id", "activation", "probability", "weight", "stratum", "flags"]
VALUES = [*PAIR, "value", "yes", "n_ratings", "flags", *SHIFTED]
WEIGHT_TOLERANCE = 1e-9
LIKELY = 0.5


def crowd_scores(
    study: pd.DataFrame,
    values: pd.DataFrame,
    n_images: int,
    *,
    estimation: Estimation = PAPER,
    model: PresenceModel | None = None,
    population: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Return the scoring table by an estimator of `pipeline.crowd.estimators`, by first appearance.

    study has one row a draw: method, unit, description, image_id, activation (standardised over
    the n_images evaluation images), q, weight, and maybe flags, whose words are kept. values is
    what `aggregate` returns. n_images of the result counts distinct images with ratings, n_ratings
    the ratings behind them. model turns the study's probabilities into predictions, and population
    (population.parquet: method, unit, description, bin, n_images, probability, activation) has their means
    over all images; estimators that predict need both. target says what low and high are about (see
    `pipeline.crowd.estimators.registry.TARGETS`); band_low and band_high are the estimates if the odds
    before the votes were half or twice as high, null where no prior is used.
    Flags: `no_interval` where low and high are null; those of `combined`: `rare_or_blind` (see there)
    and `leans_on_scorer` (the share of images with the concept is too uncertain);
    `unrated_draws` (left out), `no_ratings` (none left: NaN), `constant_activation` and
    `constant_concept` (NaN), `no_positive` (every value is 0), `no_yes` (nobody said yes to any image),
    `all_yes` (everybody to all), `no_likely_positive` (every value is below 1/2, so the score rests on the
    priors), and the flags of the values.
    Raises AssayError where a weight is not 1/(n_images q), a pair has two values, or the estimator lacks
    what it needs.
    """
    return scored(study, values, n_images, Known(estimation, model, population)).table


@dataclass(frozen=True)
class Scored:
    """The scoring table, and method, unit, description, image_id, influence of what has an interval.

    influence: what an image's draws add to the estimate's error, for differences of estimates that share
    images.
    """

    table: pd.DataFrame
    influence: pd.DataFrame


def scored(study: pd.DataFrame, values: pd.DataFrame, n_images: int, known: Known) -> Scored:
    """Return what `crowd_scores` does, with the influence of each image."""
    _check_weights(study, n_images)
    if (twice := values.duplicated(PAIR)).any():
        bad = values[twice].iloc[0]
        raise AssayError(
            f"two values for image {bad['image_id']!r} with {bad['description']!r}; aggregate them"
        )
    votes = values[[name for name in VALUES if name in values]].rename(columns={"flags": "vote_flags"})
    kept = [name for name in STUDY if name in study]
    draws = study[kept].merge(votes, on=PAIR, how="left", validate="m:1")
    groups = draws.groupby(TEXT, sort=False, observed=True)
    rows = [_crowd_row(key, group, known) for key, group in groups]
    shares = [
        {name: row[name] for name in TEXT} | {"image_id": image, "influence": value}
        for row in rows
        for image, value in row.pop("influence", {}).items()
    ]
    return Scored(_table(rows), pd.DataFrame(shares, columns=[*TEXT, "image_id", "influence"]))


def correlation_scores(
    explanations: pd.DataFrame,
    activations: NDArray[np.generic],
    units: Sequence[int],
    concepts: NDArray[np.generic],
    descriptions: Sequence[str],
) -> pd.DataFrame:
    """Return the scoring table of Pearson's correlation over all N images, one row an explanation.

    explanations has method, unit, description and maybe composition. activations is (N, U), its columns
    the units listed; concepts is (N, T), its columns the concepts listed: the scorer's probabilities
    (automatic) or the attributes' truth (oracle), NaN throughout where there is none. A composite text is
    combined from its concepts (`pipeline.composition.combine`). n_ratings is 0; low and high are null.
    Flags: `no_interval` always; with NaN `no_truth`, `constant_activation`, `constant_concept`;
    `no_positive` (the concept is on no image).
    Raises AssayError for a unit or concept that is not listed or is listed twice, shapes that
    do not match, or NaN.
    """
    _check_shapes(activations, len(units), concepts, len(descriptions))
    column_of_unit, column_of_text = _positions("unit", units), _positions("description", descriptions)
    made_of = compositions(explanations)
    rows = []
    for method, unit, description in explanations[TEXT].itertuples(index=False):
        activation = activations[:, _position("unit", column_of_unit, unit)].astype(np.float64)
        if not np.isfinite(activation).all():
            raise AssayError(f"the activations of unit {unit} hold NaN or infinity; recompute its layer")
        own = {
            text: concepts[:, _position("description", column_of_text, text)].astype(np.float64)
            for text in concepts_of(made_of[description])
        }
        concept, linear = combine(made_of[description], own), isinstance(made_of[description], Linear)
        rows.append(_correlation_row((method, unit, description), activation, concept, linear))
    return _table(rows)


def _crowd_row(key: Any, draws: pd.DataFrame, known: Known) -> dict[str, Any]:
    rated = draws[draws["value"].notna()]
    pairs = rated.drop_duplicates(PAIR)
    flags = {"unrated_draws"} if len(rated) < len(draws) else set()
    flags |= _words(draws["flags"]) if "flags" in draws else set()
    flags |= _words(pairs["vote_flags"])
    if rated.empty:
        return _row(key, float("nan"), 0, 0, flags | {"no_ratings"})
    activation, concept = (rated[name].to_numpy(np.float64) for name in ("activation", "value"))
    flags |= {"no_yes"} if not pairs["yes"].any() else set()
    flags |= {"all_yes"} if (pairs["yes"] == pairs["n_ratings"]).all() else set()
    linear = bool(is_linear(rated).any())
    flags |= {"no_likely_positive"} if not linear and not (concept >= LIKELY).any() else set()
    flags |= _concept_flags(concept, linear) | (
        {"constant_activation"} if np.isnan(activation).any() else set()
    )
    found = score_of(key, rated, known)
    row = _row(key, found.estimate, pairs["image_id"].nunique(), int(pairs["n_ratings"].sum()), flags)
    row |= found.columns() | {"influence": found.influence}
    return row | {"flags": ";".join(sorted(flags | found.flags))}


def _correlation_row(key: Any, activation: FloatArray, concept: FloatArray, linear: bool) -> dict[str, Any]:
    flags = {"constant_activation"} if is_constant(activation) else set()
    if np.isnan(concept).all():
        return _row(key, float("nan"), len(concept), 0, flags | {"no_truth"})
    if not np.isfinite(concept).all():
        raise AssayError(f"the concept {key[2]!r} is NaN or infinite on some images; give it on all or none")
    flags |= _concept_flags(concept, linear)
    return _row(key, correlation(activation, concept), len(concept), 0, flags)


def _concept_flags(concept: FloatArray, linear: bool) -> set[str]:
    nowhere = not linear and not (concept > 0).any()
    found = {"constant_concept": is_constant(concept), "no_positive": nowhere}
    return {flag for flag, holds in found.items() if holds}


def _words(flags: Iterable[str]) -> set[str]:
    return {word for text in set(flags) for word in text.split(";") if word}


def _row(key: Any, estimate: float, n_images: int, n_ratings: int, flags: set[str]) -> dict[str, Any]:
    counts = {
        "estimate": estimate,
        "low": np.nan,
        "high": np.nan,
        "target": "",
        "std_error": np.nan,
        "band_low": np.nan,
        "band_high": np.nan,
        "n_images": n_images,
        "n_ratings": n_ratings,
    }
    return dict(zip(TEXT, key, strict=True)) | counts | {"flags": ";".join(sorted(flags | {"no_interval"}))}


def _table(rows: list[dict[str, Any]]) -> pd.DataFrame:
    numbers = ("estimate", "low", "high", "std_error", "band_low", "band_high")
    types = {"unit": "int64", **dict.fromkeys(numbers, "float64"), "target": "str"}
    counts = {"n_images": "int64", "n_ratings": "int64"}
    texts = {"method": "str", "description": "str", "flags": "str"}
    return pd.DataFrame(rows, columns=COLUMNS).astype(types | counts | texts)


def _check_weights(study: pd.DataFrame, n_images: int) -> None:
    error = np.abs(study["weight"] * study["q"] * n_images - 1)
    if not (error <= WEIGHT_TOLERANCE).all():
        row = int(np.flatnonzero(~(error <= WEIGHT_TOLERANCE))[0])
        raise AssayError(
            f"weight {study['weight'].iloc[row]:.6g} in row {row} of the study is not 1/(N q) "
            f"with N = {n_images} evaluation images; the study was drawn from other images or edited, "
            "so draw it again"
        )


def _check_shapes(
    activations: NDArray[np.generic], n_units: int, concepts: NDArray[np.generic], n_texts: int
) -> None:
    n_images = len(activations)
    if n_images == 0 or activations.shape != (n_images, n_units) or concepts.shape != (n_images, n_texts):
        raise AssayError(
            f"activations {activations.shape} and concepts {concepts.shape} must be "
            f"(N, {n_units}) for the units and (N, {n_texts}) for the descriptions, N at least 1"
        )


def _positions(name: str, listed: Sequence[Any]) -> dict[Any, int]:
    positions = {value: i for i, value in enumerate(listed)}
    if len(positions) < len(listed):
        bad = next(value for i, value in enumerate(listed) if positions[value] != i)
        raise AssayError(f"{name} {bad!r} is listed twice; list each column once")
    return positions


def _position(name: str, positions: dict[Any, int], value: Any) -> int:
    if value not in positions:
        raise AssayError(f"{name} {value!r} of the explanations has no column; {len(positions)} are listed")
    return positions[value]
