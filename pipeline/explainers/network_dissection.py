"""Network Dissection with whole images: the attribute that best overlaps the unit's most active ones."""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipeline.errors import AssayError
from pipeline.explainers.attribute_sums import attribute_counts, require_attributes
from pipeline.explainers.explanations import (
    CONSTANT,
    Columns,
    Explanations,
    assemble,
    column_blocks,
    constant_units,
    require_selection,
)

NO_OVERLAP = "none of its most active images has an attribute"
FEW = 10
"""A top of fewer images is noted."""


def explain(
    activations: Columns,
    attributes: NDArray[np.uint8],
    names: Sequence[str],
    units: Sequence[int],
    *,
    quantile: float = 0.005,
) -> Explanations:
    """Give each unit the attribute of highest IoU with its most active images; of equal ones the first.

    `activations` is (N, U), `attributes` (N, A) of 0 and 1, column j for `names[j]`. `most_active_images`
    says which images count for `quantile`. Columns: `score` is the IoU = |top and attribute| / |top or
    attribute| on these images, `n_top` the number of images that count. A unit of constant activation is
    unexplained, and one whose IoU is 0 with every attribute.

    Raises AssayError for a quantile outside (0, 1), an activation that is NaN or infinite, and a unit
    outside the layer.
    Source: Bau et al., Network Dissection, CVPR 2017 (arXiv 1704.05796). The original thresholds the
    activation *map* at the top .005 of all pixels of all images and takes the IoU with segmentation masks;
    its results can be imported, and are not computed here.
    """
    units = require_selection(units, activations.shape[1])
    require_attributes(attributes, activations.shape[0], len(names))
    if not 0 < quantile < 1:
        raise AssayError(f"explainer.quantile is {quantile}; it is a share of the images, between 0 and 1")
    reasons = dict.fromkeys(constant_units(activations, units), CONSTANT)
    explained = [unit for unit in units if unit not in reasons]
    best, scores, n_top = _best_attributes(activations, explained, attributes, quantile)
    reasons |= {unit: NO_OVERLAP for unit, score in zip(explained, scores, strict=True) if not score}
    kept = scores > 0
    described = pd.DataFrame(
        {
            "unit": np.array(explained, dtype=np.int64)[kept],
            "description": [names[place] for place in best[kept]],
            "score": scores[kept],
            "n_top": n_top[kept],
        }
    )
    return assemble("network_dissection", units, described, reasons, _notes(activations.shape[0], quantile))


def _notes(n_images: int, quantile: float) -> list[str]:
    """Say where a unit's top is a handful of images, so that chance chooses."""
    size = top_size(n_images, quantile)
    if size >= FEW:
        return []
    shown = f"explainer.quantile={quantile:g} of {n_images} images is {size}"
    return [f"network_dissection: {shown}, on which chance may choose; raise it"]


def _best_attributes(
    activations: Columns, units: Sequence[int], attributes: NDArray[np.uint8], quantile: float
) -> tuple[NDArray[np.intp], NDArray[np.float64], NDArray[np.int64]]:
    """Return, for each of U units, its best attribute, the IoU and the size of its top, each (U,)."""
    best = np.zeros(len(units), dtype=np.intp)
    scores = np.zeros(len(units))
    n_top = np.zeros(len(units), dtype=np.int64)
    n_attribute = np.count_nonzero(attributes, axis=0)
    for block in column_blocks(max(attributes.shape), len(units)):
        top = most_active_images(activations[:, list(units[block])], quantile)
        n_top[block] = top.sum(axis=1)
        if not attributes.shape[1]:
            continue
        both = attribute_counts(top, attributes)
        iou = both / (n_top[block][:, None] + n_attribute - both)
        best[block] = iou.argmax(axis=1)
        scores[block] = iou.max(axis=1)
    return best, scores, n_top


def top_size(n_images: int, quantile: float) -> int:
    """Return ceil(quantile N), 1 at least; what rounding alone lifts over an integer is that integer."""
    return max(1, math.ceil(round(quantile * n_images, 9)))


def most_active_images(activations: NDArray[np.floating], quantile: float) -> NDArray[np.bool_]:
    """Return which images are the most active ones of each unit (N, U), as (U, N).

    Those at or above the k-th highest activation, k = `top_size`: k images, or more where others equal the
    k-th. Where the k-th highest is the unit's lowest value, which all images reach, those above
    that value: a rectified unit or a latent of an SAE that fires on fewer than k images has exactly these.
    """
    values = np.ascontiguousarray(activations.T)
    n_images = values.shape[1]
    k = top_size(n_images, quantile)
    threshold = np.partition(values, n_images - k, axis=1)[:, [n_images - k]]
    everywhere = threshold == values.min(axis=1, keepdims=True)
    return np.asarray((values > threshold) | ((values == threshold) & ~everywhere))
