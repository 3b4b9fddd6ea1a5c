"""Linear Explanations from labels: a unit as a weighted sum of attributes."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import AssayError
from pipeline.explainers import linear_explanations
from pipeline.explainers.attribute_sums import require_attributes
from pipeline.explainers.explanations import Columns, Explanations, column_blocks
from pipeline.explainers.linear_explanations import Settings, screen, split


def explain(
    activations: Columns,
    attributes: NDArray[np.uint8],
    names: Sequence[str],
    units: Sequence[int],
    *,
    max_concepts: int = 10,
    strength: float = 0.05,
    l1_ratio: float = 0.99,
    min_gain: float = 0.02,
    min_top_mean: float = 0.5,
    min_sd: float = 1e-5,
    seed: int = 0,
    place: str = "",
) -> Explanations:
    """Give each unit a sparse weighted sum of attributes.

    `activations` is (N, U), `attributes` (N, A) of 0 and 1, column j for the distinct `names[j]`. The images
    are split 70/10/20 by (seed, place). Concepts pass where the mean of their 5 highest values is
    `min_top_mean` or more and their sd on training is `min_sd` or more. On the training part an elastic net
    of the standardised activation on the standardised concepts (`elastic_net.elastic_nets`; `strength` is
    lambda, `l1_ratio` alpha) orders the concepts of positive weight, and a greedy search adds up to
    `max_concepts` (`greedy_concepts.choose`), each refit by least squares, while the validation correlation
    rises by `min_gain`. With `max_concepts=1` the text is the concept of largest weight that rises with the
    unit. A concept whose elastic-net weight is 0 or negative is never tried, but the refit may make a weight
    negative; a single concept is plain text. Weights are the refit's, in activation per unit of a concept's
    value, rounded to 4 significant digits, largest first, without a constant. Columns: `composition`;
    `score` and `test_correlation`, the correlations of the text as it stands on the validation part, which
    chose it, and on the test part, which nothing chose by (NaN where one side is constant there);
    `n_concepts`.

    Unexplained: a constant unit, one without a positive activation, one that is constant on training, one
    for which no concept has a positive weight and rises with it by itself, and all where no concept passes.
    Raises AssayError where there is no attribute, for fewer than 30 images, an activation that is NaN or
    infinite, and a unit outside the layer.

    Source: Oikarinen and Weng, Linear Explanations for Individual Neurons, ICML 2024 (arXiv 2405.06855).
    """
    if not names:
        raise AssayError(
            "le_label needs attributes, and the dataset has none; use le_siglip with a vocabulary"
        )
    require_attributes(attributes, activations.shape[0], len(names))
    parts = split(activations.shape[0], seed, place)
    settings = Settings(max_concepts, strength, l1_ratio, min_gain, min_top_mean, min_sd)
    blocks = (
        np.ascontiguousarray(attributes[:, columns][parts.order].T)
        for columns in column_blocks(len(attributes), len(names))
    )
    concepts = screen("le_label", blocks, names, parts, settings)
    return linear_explanations.explain("le_label", activations, units, concepts, parts, settings)
