"""Linear Explanations from a scorer: a unit as a weighted sum of the probabilities of words."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import AssayError
from pipeline.explainers import linear_explanations
from pipeline.explainers.explanations import Columns, Explanations, column_blocks
from pipeline.explainers.linear_explanations import Settings, screen, split
from pipeline.scorers.calibration import probabilities


def explain(
    activations: Columns,
    images: NDArray[np.floating],
    texts: NDArray[np.floating],
    vocabulary: Sequence[str],
    units: Sequence[int],
    *,
    a: float,
    b: float,
    max_concepts: int = 10,
    strength: float = 0.05,
    l1_ratio: float = 0.99,
    min_gain: float = 0.02,
    min_top_mean: float = 0.5,
    min_sd: float = 1e-5,
    seed: int = 0,
    place: str = "",
) -> Explanations:
    """Give each unit a sparse weighted sum of words, whose value on an image is sigmoid(a (cos + b)).

    `images` (N, d) and `texts` (T, d) are the scorer's embeddings, rows of length 1, row t for the distinct
    `vocabulary[t]`. The rest is `le_label.explain`. Probabilities are computed in blocks of 64 MiB of
    concepts; those that pass the screening are held as float32, 4 N bytes each. Raises AssayError also for
    an empty vocabulary.

    Source: Oikarinen and Weng, Linear Explanations for Individual Neurons, ICML 2024 (arXiv 2405.06855).
    """
    if not vocabulary:
        raise AssayError("le_siglip has an empty vocabulary; set explainer.vocabulary to a list of words")
    if len(images) != activations.shape[0] or len(texts) != len(vocabulary):
        raise ValueError(
            f"images {images.shape}, texts {texts.shape}: want {activations.shape[0]} images and "
            f"{len(vocabulary)} texts"
        )
    parts = split(activations.shape[0], seed, place)
    settings = Settings(max_concepts, strength, l1_ratio, min_gain, min_top_mean, min_sd)
    ordered = images[parts.order]
    blocks = (
        np.ascontiguousarray(probabilities(ordered, texts[rows], a, b).T)
        for rows in column_blocks(len(images), len(vocabulary))
    )
    concepts = screen("le_siglip", blocks, vocabulary, parts, settings)
    return linear_explanations.explain("le_siglip", activations, units, concepts, parts, settings)
