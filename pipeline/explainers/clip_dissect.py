"""CLIP-Dissect: the concept whose cosines with the images are most similar to the unit's activations."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipeline.errors import AssayError
from pipeline.explainers.explanations import (
    CONSTANT,
    Columns,
    Explanations,
    assemble,
    constant_units,
    require_selection,
)
from pipeline.explainers.similarities.cosines import Block, Cosines
from pipeline.explainers.similarities.registry import similarity as similarity_of
from pipeline.explainers.vocabulary import distinct


def explain(
    activations: Columns,
    images: NDArray[np.floating],
    texts: NDArray[np.floating],
    vocabulary: Sequence[str],
    units: Sequence[int],
    *,
    similarity: str = "soft_wpmi",
    top: int | None = None,
    lam: float | None = None,
    temperature: float | None = None,
    threads: int = 1,
) -> Explanations:
    """Give each unit the word of highest similarity; of equal ones the first in the vocabulary.

    `activations` is (N, U) for the *whole layer*; `images` (N, d) and `texts` (T, d) are embeddings of unit
    length, row t for `vocabulary[t]`. Their products are the cosines, which are computed in blocks, never
    held as (N, T). `similarity` names a module of `similarities`, whose `scores` has the formula. `top`,
    `lam` and `temperature` are its settings, None for its own default; rank_reorder shares its work between
    `threads`, the others leave that to the matrix products.

    Blank words are left out, and a word that stands twice counts once, at its first place, together with
    their rows of `texts`. Words of one embedding are equal, whatever the rounding (CLIP's tokens have no
    capitals). The column `score` is the similarity. A unit of constant activation is unexplained, but still
    counts in the mean over the layer.

    Raises AssayError for an activation or embedding that is NaN or infinite, for an empty vocabulary, for a
    unit outside the layer, for an unknown similarity, and for a setting that the similarity does not have.
    Source: Oikarinen and Weng, CLIP-Dissect, ICLR 2023 (arXiv 2204.10965).
    """
    units = require_selection(units, activations.shape[1])
    if texts.shape != (len(vocabulary), images.shape[1]) or len(images) != activations.shape[0]:
        raise ValueError(f"images {images.shape} and texts {texts.shape} for {len(vocabulary)} words")
    words = distinct(vocabulary)
    if not words.words:
        raise AssayError("clip_dissect has an empty vocabulary; set explainer.vocabulary to a list of words")
    module = similarity_of(similarity)
    given = {"top": top, "lam": lam, "temperature": temperature}
    settings = _settings(similarity, module.scores, given, threads)
    constant = constant_units(activations, range(activations.shape[1]))
    if len(words.words) < len(vocabulary):
        texts = texts[list(words.places)]
    cosines = Cosines(_embeddings("image", images), _embeddings("text", texts))
    explained = [unit for unit in units if unit not in constant]
    blocks = module.scores(activations, cosines, explained, **settings) if explained else ()
    best, scores = _best(blocks, len(explained))
    first = _first_alike(cosines.texts)
    described = pd.DataFrame(
        {"unit": explained, "description": [words.words[first[place]] for place in best], "score": scores}
    )
    reasons = {unit: CONSTANT for unit in units if unit in constant}
    reasons |= {
        unit: module.UNSCORED for unit, score in zip(explained, scores, strict=True) if score == -np.inf
    }
    notes = [*_few_images(len(images), settings), *words.notes("clip_dissect")]
    return assemble("clip_dissect", units, described[described["score"] > -np.inf], reasons, notes)


def _settings(
    name: str, scores: Callable[..., Iterable[Block]], given: Mapping[str, float | None], threads: int
) -> dict[str, Any]:
    """Return the similarity's settings, its defaults where none is given."""
    known = {
        key: parameter.default
        for key, parameter in inspect.signature(scores).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }
    for key, value in given.items():
        if value is not None and key not in known:
            raise AssayError(
                f"explainer.{key}={value}, but explainer.similarity={name} has no such setting; "
                f"set explainer.{key} to null"
            )
    chosen = {**given, "threads": threads}
    return {key: default if chosen[key] is None else chosen[key] for key, default in known.items()}


def _embeddings(what: str, embeddings: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return embeddings in float32 at least; AssayError where one is not finite."""
    if not (finite := np.isfinite(embeddings).all(axis=1)).all():
        raise AssayError(
            f"{what} {int(np.flatnonzero(~finite)[0])} has an embedding that is not finite; compute the "
            "embeddings again with device.precision=float32, or choose another scorer"
        )
    return embeddings.astype(np.result_type(embeddings, np.float32), copy=False)


def _first_alike(texts: NDArray[np.floating]) -> list[int]:
    """Return, for each text, the first with the same embedding: their scores differ by rounding alone."""
    first: dict[bytes, int] = {}
    digests = (blake2b(np.ascontiguousarray(text).data, digest_size=16).digest() for text in texts)
    return [first.setdefault(digest, place) for place, digest in enumerate(digests)]


def _best(blocks: Iterable[Block], n_units: int) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return each unit's first concept of highest score and that score; -inf where it has none."""
    best, highest = np.zeros(n_units, dtype=np.intp), np.full(n_units, -np.inf)
    for block in blocks:
        known = np.where(np.isnan(block.scores), -np.inf, block.scores)
        place = known.argmax(axis=1)
        score = known[np.arange(len(known)), place]
        better = score > highest[block.units]
        best[block.units][better] = place[better] + block.concepts.start
        highest[block.units][better] = score[better]
    return best, highest


def _few_images(n_images: int, settings: Mapping[str, Any]) -> list[str]:
    top = settings.get("top") or 0
    if n_images >= top:
        return []
    return [f"clip_dissect: {n_images} images are fewer than top={top}, so all of them were used"]
