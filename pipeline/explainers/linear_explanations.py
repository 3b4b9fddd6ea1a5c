"""Linear Explanations: a unit as a sparse weighted sum of concepts; the steps that both kinds share."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipeline.composition import Composition, combine, concepts_of, linear
from pipeline.crowd.correlation import correlation
from pipeline.errors import AssayError
from pipeline.explainers.elastic_net import GAP, Design, elastic_nets
from pipeline.explainers.explanations import (
    CONSTANT,
    Columns,
    Explanations,
    assemble,
    column_blocks,
    constant_units,
    require_selection,
    text_columns,
)
from pipeline.explainers.greedy_concepts import choose, moments
from pipeline.seeds import generator

FloatArray = NDArray[np.float64]
MIN_IMAGES = 30
TOP = 5
WIDTH = 10
"""Candidates that the greedy search tries at each step, as the authors' code does."""
NEGLIGIBLE = 1e-6
"""Share of the largest standardised weight, under which a concept is dropped: others took its place."""
NOT_POSITIVE = "no positive activation"
CONSTANT_IN_TRAINING = "constant activation on the training part"
NO_WEIGHT = "no concept has a positive weight and rises with it"
TYPES = {
    "unit": "int64",
    "description": "str",
    "composition": "str",
    "score": "float64",
    "test_correlation": "float64",
    "n_concepts": "int64",
}
"""The columns of the table, also of an empty one."""


@dataclass(frozen=True)
class Settings:
    """The settings of a Linear Explanation; `le_label.explain` says what each does."""

    max_concepts: int
    strength: float
    l1_ratio: float
    min_gain: float
    min_top_mean: float
    min_sd: float


@dataclass(frozen=True, eq=False)
class Parts:
    """The images (N,) in the order training, validation, test, and the slices of the three."""

    order: NDArray[np.intp]
    training: slice
    validation: slice
    test: slice


@dataclass(frozen=True, eq=False)
class Concepts:
    """The concepts that pass the screening: names and values (T, N), images in the order of the parts.

    `design` holds the training part; `notes` say how many passed, for the report.
    """

    names: list[str]
    values: NDArray[Any]
    design: Design
    notes: list[str]


def split(n_images: int, seed: int, place: str) -> Parts:
    """Return a random split: floor(.7 N) images train, floor(.1 N) validate, the rest test.

    Raises AssayError for fewer than 30 images, of which 3 would validate.
    """
    if n_images < MIN_IMAGES:
        raise AssayError(
            f"a Linear Explanation splits its images 70/10/20, and explainer.split has {n_images} of them; "
            f"choose a split with {MIN_IMAGES} images at least"
        )
    order = generator(seed, "linear explanations", place).permutation(n_images)
    trained = 7 * n_images // 10
    validated = trained + n_images // 10
    return Parts(order, slice(0, trained), slice(trained, validated), slice(validated, n_images))


def screen(
    method: str, blocks: Iterable[NDArray[Any]], names: Sequence[str], parts: Parts, settings: Settings
) -> Concepts:
    """Keep concepts whose 5 highest values have a mean of min_top_mean and that vary on training by min_sd.

    `blocks` are values (b, N) of consecutive concepts, images in the order of the parts. Only what passes
    stays in memory. Of concepts with equal values on all images the first is kept.
    """
    kept, passed, means, sds = [], [], [], []
    seen: set[bytes] = set()
    n_passed, highest = 0, 0.0
    for block in blocks:
        top = np.partition(block, -TOP, axis=1)[:, -TOP:].mean(axis=1, dtype=np.float64)
        mean, sd = _mean_and_sd(block[:, parts.training])
        good = (top >= settings.min_top_mean) & (sd >= settings.min_sd) & (sd > 0)
        n_passed += int(good.sum())
        highest = max(highest, float(top.max(initial=0.0)))
        good[good] = [_is_new(row, seen) for row in block[good]]
        kept.append(block[good])
        passed.append(good)
        means.append(mean[good])
        sds.append(sd[good])
    good = np.concatenate(passed)
    values = _stacked(kept)
    design = Design(values[:, parts.training], np.concatenate(means), np.concatenate(sds))
    notes = [f"{method}: {n_passed} of {len(good)} concepts pass the screening"]
    if not n_passed:
        notes[0] += (
            f": the highest mean of {TOP} values is {highest:.3g}, explainer.min_top_mean is "
            f"{settings.min_top_mean:g}"
        )
    if repeats := n_passed - len(values):
        notes.append(f"{method}: {repeats} of them, equal on every image to one before, were left out")
    return Concepts([name for name, stays in zip(names, good, strict=True) if stays], values, design, notes)


def _mean_and_sd(values: NDArray[Any]) -> tuple[FloatArray, FloatArray]:
    exact = values.astype(np.float64)
    mean = exact.mean(axis=1)
    exact -= mean[:, None]
    return mean, np.sqrt(np.einsum("bn,bn->b", exact, exact) / exact.shape[1])


def _is_new(row: NDArray[Any], seen: set[bytes]) -> bool:
    digest = hashlib.blake2b(row.tobytes(), digest_size=16).digest()
    is_new = digest not in seen
    seen.add(digest)
    return is_new


def _stacked(blocks: list[NDArray[Any]]) -> NDArray[Any]:
    """Join blocks of rows, freeing each as it is copied, so that memory stays that of one copy."""
    result = np.empty((sum(map(len, blocks)), blocks[0].shape[1]), dtype=blocks[0].dtype)
    start = len(result)
    while blocks:
        block = blocks.pop()
        start -= len(block)
        result[start : start + len(block)] = block
    return result


def explain(
    method: str,
    activations: Columns,
    units: Sequence[int],
    concepts: Concepts,
    parts: Parts,
    settings: Settings,
) -> Explanations:
    """Return the explanations of one method, whose concepts passed the screening.

    Units are read and solved in blocks of 64 MiB of activations.
    """
    units = require_selection(units, activations.shape[1])
    reasons = dict.fromkeys(constant_units(activations, units), CONSTANT)
    notes = list(concepts.notes)
    if not concepts.names:
        reasons = {unit: reasons.get(unit, _nothing_left(settings)) for unit in units}
    asked = [unit for unit in units if unit not in reasons]
    rows: list[dict[str, object]] = []
    loose = 0
    for block in column_blocks(len(parts.order), len(asked)):
        some = asked[block]
        values = np.asarray(activations[:, some], dtype=np.float64)[parts.order]
        found, unsolved = _explain_block(values, concepts, parts, settings)
        loose += unsolved
        for unit, result in zip(some, found, strict=True):
            if isinstance(result, str):
                reasons[unit] = result
            else:
                rows.append({"unit": unit, **result})
    if loose:
        notes.append(f"{method}: the elastic net of {loose} units stopped before its duality gap was {GAP:g}")
    described = pd.DataFrame(rows, columns=list(TYPES)).astype(TYPES)
    return assemble(method, units, described, reasons, notes)


def _nothing_left(settings: Settings) -> str:
    return (
        f"no concept passes the screening (mean of its 5 highest values >= {settings.min_top_mean:g}, "
        f"sd >= {settings.min_sd:g})"
    )


def _explain_block(
    values: FloatArray, concepts: Concepts, parts: Parts, settings: Settings
) -> tuple[list[dict[str, object] | str], int]:
    """Return a row or a reason for each unit of (N, u), and the number of nets that did not converge."""
    training = values[parts.training]
    reasons = [_reason(whole, part) for whole, part in zip(values.T, training.T, strict=True)]
    able = [place for place, reason in enumerate(reasons) if not reason]
    targets = training[:, able] - training[:, able].mean(axis=0)
    targets /= targets.std(axis=0)
    weights, gaps = elastic_nets(
        concepts.design, targets, strength=settings.strength, l1_ratio=settings.l1_ratio
    )
    found: list[dict[str, object] | str] = list(reasons)
    for place, unit_weights in zip(able, weights.T, strict=True):
        found[place] = _explain_unit(values[:, place], unit_weights, concepts, parts, settings)
    return found, int((gaps > GAP).sum())


def _reason(values: FloatArray, training: FloatArray) -> str:
    if values.max() <= 0:
        return NOT_POSITIVE
    return CONSTANT_IN_TRAINING if training.min() == training.max() else ""


def _explain_unit(
    values: FloatArray, weights: FloatArray, concepts: Concepts, parts: Parts, settings: Settings
) -> dict[str, object] | str:
    """Return a unit's row, or why it has none, from its activation (N,) and elastic net (T,)."""
    width = WIDTH if settings.max_concepts > 1 else 1
    order = np.argsort(-weights, kind="stable")[: int((weights > 0).sum())]
    candidates = order[: WIDTH * (settings.max_concepts + 1)]
    chosen_by = concepts.values[:, : parts.validation.stop]
    design = Design(chosen_by, concepts.design.mean, concepts.design.sd)
    rows = design.standardised(candidates)
    scale = values[parts.training].std()
    chosen, refit = choose(
        moments(rows[:, parts.training], values[parts.training] / scale),
        moments(rows[:, parts.validation], values[parts.validation] / scale),
        max_concepts=settings.max_concepts,
        min_gain=settings.min_gain,
        width=width,
    )
    if not chosen:
        return NO_WEIGHT
    places = candidates[chosen]
    kept = np.abs(refit) > NEGLIGIBLE * np.abs(refit).max()
    composition = _composition(places[kept], refit[kept] * scale, concepts)
    return text_columns(composition) | _facts(composition, values, places[kept], concepts, parts)


def _composition(places: NDArray[np.intp], weights: FloatArray, concepts: Concepts) -> Composition:
    """Return the sum, largest weight first; one concept with a positive weight is that concept."""
    raw: FloatArray = weights / concepts.design.sd[places]
    if len(places) == 1 and raw[0] > 0:
        return concepts.names[int(places[0])]
    order = np.argsort(-raw, kind="stable")
    return linear((float(raw[k]), concepts.names[places[k]]) for k in order)


def _facts(
    composition: Composition,
    values: FloatArray,
    places: NDArray[np.intp],
    concepts: Concepts,
    parts: Parts,
) -> dict[str, object]:
    """Return the correlations of the text as it stands, NaN where one side is constant."""
    summed = combine(composition, {concepts.names[place]: concepts.values[place] for place in places})
    return {
        "score": correlation(values[parts.validation], summed[parts.validation]),
        "test_correlation": correlation(values[parts.test], summed[parts.test]),
        "n_concepts": len(concepts_of(composition)),
    }
