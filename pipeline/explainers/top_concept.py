"""The attribute whose human labels correlate most with the unit."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipeline.crowd.correlation import correlations
from pipeline.errors import AssayError
from pipeline.explainers.explanations import (
    CONSTANT,
    Explanations,
    assemble,
    constant_units,
    require_selection,
)

LEVEL = 1e-12


def explain(
    activations: NDArray[np.floating],
    attributes: NDArray[np.uint8],
    names: Sequence[str],
    units: Sequence[int],
) -> Explanations:
    """Give each unit the attribute of highest signed Pearson correlation.

    `activations` is (N, U), `attributes` (N, A) of 0 and 1, column j for `names[j]`. Correlations within
    1e-12 are equal, and of equal ones the first in the table is taken. An attribute that is constant on
    these images is never chosen; a unit of constant activation is unexplained. The column `score` is the
    correlation on these images, which is optimistic: it was maximised there. Raises AssayError for an
    activation that is NaN or infinite, where no attribute varies, and for a unit outside the layer.
    """
    units = require_selection(units, activations.shape[1])
    if attributes.shape != (len(activations), len(names)):
        raise ValueError(f"attributes {attributes.shape}: want {(len(activations), len(names))}")
    if not (attributes != attributes[:1]).any():
        raise AssayError(
            f"none of the {len(names)} attributes varies on the {len(activations)} images that top_concept "
            "may use; lower dataset.labels.min_count, or enlarge the training split"
        )
    constant = constant_units(activations, units)
    explained = [unit for unit in units if unit not in constant]
    scores = correlations(activations[:, explained], attributes)
    best = first_highest(scores)
    described = pd.DataFrame(
        {
            "unit": explained,
            "description": [names[place] for place in best],
            "score": scores[np.arange(len(explained)), best],
        }
    )
    return assemble("top_concept", units, described, {unit: CONSTANT for unit in units if unit in constant})


def first_highest(scores: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return, for each row of (U, A), the first column within 1e-12 of the highest; NaN never wins."""
    known = np.where(np.isnan(scores), -np.inf, scores)
    level = known >= known.max(axis=1, keepdims=True) - LEVEL
    return np.asarray(level.argmax(axis=1), dtype=np.intp)
