"""INVERT: the logical formula of attributes that best ranks the images by the unit's activation."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import norm

from pipeline.errors import AssayError
from pipeline.explainers.attribute_sums import require_attributes
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
from pipeline.explainers.formula_search import (
    FloatArray,
    Found,
    Limits,
    best_formulas,
    concept_table,
    doubled_midranks,
    formula,
)

FEW = 20
"""On fewer images than this a formula's AUC is high by chance: a note says how many formulas are."""
COLUMNS = ("unit", "description", "composition", "score", "p_value", "fraction", "length")


def explain(
    activations: Columns,
    attributes: NDArray[np.uint8],
    names: Sequence[str],
    units: Sequence[int],
    *,
    length: int = 3,
    beam: int = 5,
    min_fraction: float = 0.0,
    max_fraction: float = 0.5,
) -> Explanations:
    """Give each unit the formula of up to `length` attributes with the highest AUC that a beam search finds.

    `activations` is (N, U), `attributes` (N, A) of 0 and 1, column j for `names[j]`. The AUC is that of the
    activation for "the formula holds", by midranks. Formulas join attributes and their negations from the
    left with AND and OR, each attribute once, and hold on a share of images above 0 and from `min_fraction`
    to `max_fraction`. A longer one is taken only if its AUC is higher; `formula_search.best_formulas` has
    the rule of ties. Columns: `score` is the AUC (below .5 where nothing ranks the unit's images better),
    `p_value` the Mann-Whitney test of AUC = .5, `fraction` the share of images where the formula holds,
    `length` its number of attributes. AUC and p are of the images that were searched, so both flatter. A
    unit of constant activation is unexplained, and every unit where no attribute has an allowed share.
    Among very many formulas some that hold on a handful of images have an AUC near 1 by chance: a
    `min_fraction` above 0 keeps these out (the paper's Figure 1 has .0035), and a note counts them.

    Raises AssayError for a setting out of range, a name that stands twice, an activation that is NaN or
    infinite, and a unit outside the layer.
    Source: Bykov et al., Labeling Neural Representations with Inverse Recognition, NeurIPS 2023 (arXiv
    2311.13594). The authors' code keeps formulas that are equal in truth in the beam; here one fills one
    place.
    """
    units = require_selection(units, activations.shape[1])
    require_attributes(attributes, activations.shape[0], len(names))
    limits = _limits(length, beam, min_fraction, max_fraction)
    if repeated := [name for name, count in Counter(names).items() if count > 1]:
        raise AssayError(f"attribute '{repeated[0]}' has two columns; give each its own name in the labels")
    reasons = dict.fromkeys(constant_units(activations, units), CONSTANT)
    explained = [unit for unit in units if unit not in reasons]
    concepts = concept_table(attributes)
    rows: list[dict[str, Any]] = []
    for block in column_blocks(beam * max(attributes.shape), len(explained)):
        ranks = doubled_midranks(activations[:, explained[block]])
        found = best_formulas(ranks, concepts, limits)
        for unit, own_ranks, best in zip(explained[block], ranks, found, strict=True):
            if best is None:
                reasons[unit] = _no_concept(limits)
            else:
                rows.append({"unit": unit, **_row(best, own_ranks, names)})
    notes = _notes([found["fraction"] * len(attributes) for found in rows])
    return assemble("invert", units, pd.DataFrame(rows, columns=COLUMNS), reasons, notes)


def _notes(counts: Sequence[float]) -> list[str]:
    few = sum(round(count) < FEW for count in counts)
    if not few:
        return []
    return [
        f"invert: {few} of {len(counts)} formulas hold on fewer than {FEW} images, where a high AUC is often "
        "chance; raise explainer.min_fraction"
    ]


def _limits(length: int, beam: int, min_fraction: float, max_fraction: float) -> Limits:
    for key, value in (("length", length), ("beam", beam)):
        if value < 1:
            raise AssayError(f"explainer.{key} is {value}; invert needs 1 at least")
    if not (0 <= min_fraction <= max_fraction <= 1 and max_fraction > 0):
        raise AssayError(
            f"explainer.min_fraction is {min_fraction} and explainer.max_fraction {max_fraction}; these are "
            "shares of the images, the first at least 0, the second at most 1 and not below the first"
        )
    return Limits(length, beam, min_fraction, max_fraction)


def _no_concept(limits: Limits) -> str:
    low = f"at least {limits.min_fraction:g}" if limits.min_fraction else "more than 0"
    return f"no attribute or its negation holds on {low} and at most {limits.max_fraction:g} of the images"


def _row(found: Found, ranks: FloatArray, names: Sequence[str]) -> dict[str, Any]:
    return {
        **text_columns(formula(found, names)),
        "score": found.auc,
        "p_value": mann_whitney(found.auc, found.count, ranks),
        "fraction": found.count / len(ranks),
        "length": len(found.terms),
    }


def mann_whitney(auc: float, count: float, doubled_ranks: FloatArray) -> float:
    """Return the two-sided p value of AUC = .5 for a formula that holds on `count` of the N images.

    The normal approximation, with the correction for ties (the variance is that of the midranks) and the
    continuity correction of 1/2: scipy's mannwhitneyu with method="asymptotic", which is two-sided as in
    the authors' code. It knows nothing of the search.
    """
    n = len(doubled_ranks)
    pairs = count * (n - count)
    variance = pairs / (n * (n - 1)) * np.sum(((doubled_ranks - (n + 1)) / 2) ** 2)
    excess = abs(auc - 0.5) * pairs - 0.5
    return float(min(1.0, 2 * norm.sf(excess / np.sqrt(variance))))
