"""Sanity tests of metrics: a score must fall where labels are missing, and where there are too many.

Source: NeuronEval (arXiv 2506.05774), the missing labels and extra labels tests. The share of units
that makes a pass is our setting.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from pipeline.neuron_eval.columns import BoolArray, Columns, FloatArray, concept_columns
from pipeline.neuron_eval.pairs import ALPHA, PENALTY, PRESENT, Pairs, pairs
from pipeline.neuron_eval.registry import NAMES, Metric, metric
from pipeline.seeds import generator

LEAST_FALL = 0.001
LEAST_SHARE = 0.9
BLOCK_VALUES = 1 << 21  # 16 MiB of float64

Row = dict[str, object]


def missing_labels(concepts: ArrayLike, seed: int) -> FloatArray:
    """Return concepts (N,) or (N, U) with each positive (c >= 1/2) set to 0 with probability 1/2.

    Column u depends on its values and (seed, u) alone. Raises AssayError as `concept_columns`.
    """
    changed = _missing(concept_columns(concepts), seed, 0).values.T
    return changed.reshape(np.shape(concepts))


def extra_labels(concepts: ArrayLike, seed: int) -> FloatArray:
    """Return concepts (N,) or (N, U) with each negative set to 1 with probability f/(1-f).

    f is the share of positives (c >= 1/2), so that their expected number doubles; from f = 1/2 on,
    every image becomes positive. Column u depends on its values and (seed, u) alone.
    Raises AssayError as `concept_columns`.
    """
    changed = _extra(concept_columns(concepts), seed, 0).values.T
    return changed.reshape(np.shape(concepts))


def sanity_table(
    activations: ArrayLike,
    concepts: ArrayLike,
    metrics: Sequence[str] = NAMES,
    *,
    seed: int,
    alpha: ArrayLike = ALPHA,
    penalty: float = PENALTY,
) -> pd.DataFrame:
    """Return one row a metric: how its scores change under missing and under extra labels.

    activations and concepts are (N,) or (N, U), alpha and penalty as in `pairs`. Columns, for each
    test (missing, extra): `<test>_n`, the units with a score before and after; `<test>_change`, their
    mean change in shares of the metric's range (negative: the score falls); `<test>_share`, the share
    of them that falls by more than .001; `<test>_passes`, share >= .9. `passes` is both. `flag`
    holds `<test>_undefined` where some units have no change, and `<test>_no_unit` where none has: then
    the mean and share are NaN, and the test does not pass.
    Raises AssayError for an unknown metric, and as `pairs`.
    """
    chosen = [metric(name) for name in metrics]
    whole = pairs(activations, concepts, alpha=alpha, penalty=penalty, seed=seed)
    found: dict[tuple[str, str], list[FloatArray]] = {(m.name, test): [] for m in chosen for test in _TESTS}
    for block in _blocks(whole):
        before = [own.scores(block).values for own in chosen]
        for test, changed in _TESTS.items():
            after = block.with_concepts(changed(block.concepts, seed, block.first_unit))
            for own, score in zip(chosen, before, strict=True):
                found[own.name, test].append((own.scores(after).values - score) / width(own, block))
    return pd.DataFrame([_row(m.name, {t: np.concatenate(found[m.name, t]) for t in _TESTS}) for m in chosen])


def width(own: Metric, of: Pairs) -> FloatArray:
    """Return the width of the metric's range for each unit, (U,); NaN where it is 0 (a constant unit)."""
    low, high = own.bounds(of)
    return np.where(high > low, high - low, np.nan)


def _row(name: str, tests: dict[str, FloatArray]) -> Row:
    row: Row = {"metric": name}
    for test, change in tests.items():
        defined = change[~np.isnan(change)]
        n = len(defined)
        share = float(np.mean(defined < -LEAST_FALL)) if n else np.nan
        row |= {
            f"{test}_n": n,
            f"{test}_change": float(defined.mean()) if n else np.nan,
            f"{test}_share": share,
            f"{test}_passes": share >= LEAST_SHARE,
        }
    flags = (flag for test, change in tests.items() for flag in _flags(test, np.isnan(change)))
    return row | {"passes": all(row[f"{test}_passes"] for test in tests), "flag": ";".join(flags)}


def _flags(test: str, undefined: BoolArray) -> list[str]:
    if undefined.all():
        return [f"{test}_no_unit"]
    return [f"{test}_undefined"] if undefined.any() else []


def _missing(concepts: Columns, seed: int, first_unit: int) -> Columns:
    chance = _chances(concepts, seed, "missing_labels", first_unit)
    return Columns(np.where((concepts.values >= PRESENT) & (chance < 0.5), 0, concepts.values))


def _extra(concepts: Columns, seed: int, first_unit: int) -> Columns:
    present = concepts.values >= PRESENT
    n = present.sum(axis=1, keepdims=True)
    chance = _chances(concepts, seed, "extra_labels", first_unit)
    return Columns(np.where(~present & (chance * (present.shape[1] - n) < n), 1, concepts.values))


_TESTS: dict[str, Callable[[Columns, int, int], Columns]] = {"missing": _missing, "extra": _extra}


def _chances(concepts: Columns, seed: int, name: str, first_unit: int) -> FloatArray:
    n_units, n_images = concepts.values.shape
    return np.stack([generator(seed, name, first_unit + u).random(n_images) for u in range(n_units)])


def _blocks(whole: Pairs) -> Iterator[Pairs]:
    """Split the units so that what is sorted and kept of a block stays small."""
    step = max(1, BLOCK_VALUES // whole.n_images)
    for first in range(0, len(whole.alpha), step):
        units = slice(first, first + step)
        a, c = Columns(whole.activations.values[units]), Columns(whole.concepts.values[units])
        yield Pairs(a, c, whole.alpha[units], whole.penalty, whole.seed, first)
