"""MATCHScore: how well coalitions predict their attributes on images that they were not matched on.

Source: Klotz et al., arXiv 2606.24716.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pipeline.errors import AssayError
from pipeline.matching.codes import Codes, FloatArray
from pipeline.matching.matching import Matching, check_sizes, f1_scores

NO_HELD_OUT = "no held-out positive"


@dataclass(frozen=True)
class MatchDifference:
    """dMATCHScore: the difference from the frozen SAEs' mean, and their spread.

    spread is the standard deviation over the n_seeds frozen scores, NaN for one of them.
    """

    difference: float
    spread: float
    n_seeds: int


def match_score(
    matching: Matching,
    latents: Codes,
    attributes: ArrayLike,
    k: int = 3,
    *,
    include_empty: bool = True,
) -> float:
    """Return MATCHScore@k: the mean over all attributes of the F1 of the first k latents.

    latents (N, D) and attributes (N, A) are those of the held-out images. Attributes with an empty coalition
    count as 0. include_empty=False leaves out those that have a reason (see `empty_attributes`), and is NaN
    where all have one. Raises AssayError as `attribute_scores`. Source: arXiv 2606.24716.
    """
    scores = attribute_scores(matching, latents, attributes, [k])[:, 0]
    if include_empty:
        return float(scores.mean())
    kept = np.array([reason == "" for reason in empty_attributes(matching, attributes)])
    return float(scores[kept].mean()) if kept.any() else math.nan


def attribute_scores(
    matching: Matching, latents: Codes, attributes: ArrayLike, ks: Sequence[int]
) -> FloatArray:
    """Return the F1 of the first k latents for each attribute and k, (A, len(ks)), in one pass.

    A coalition shorter than k is used whole; F1 is 0 where nothing is predicted or nothing is there to
    predict. Raises AssayError for k below 1, and where codes (N, D) or attributes (N, A) are not those of
    this matching.
    """
    check_sizes(list(ks))
    if not ks:
        raise AssayError("ks is empty; give at least one length of the coalitions, such as 3")
    longest = min(max(ks), max([1, *map(len, matching.coalitions)]))
    right, predicted = matching.counts(latents, attributes, longest)
    n_positive = np.count_nonzero(np.asarray(attributes), axis=0)
    places = np.minimum(np.asarray(ks, dtype=np.int64), longest) - 1
    return f1_scores(right, predicted, n_positive[:, None])[:, places]


def empty_attributes(matching: Matching, attributes: ArrayLike) -> tuple[str, ...]:
    """Return why each attribute can only score 0 on held-out attributes (N, A), "" where it need not.

    The reasons of the matching ("no positive", "no overlap"), then "no held-out positive".
    """
    n_positive = np.count_nonzero(matching.check_attributes(attributes, len(np.asarray(attributes))), axis=0)
    return tuple(
        reason or ("" if n else NO_HELD_OUT) for reason, n in zip(matching.reasons, n_positive, strict=True)
    )


def dmatch_score(score: float, frozen_scores: Sequence[float]) -> MatchDifference:
    """Return dMATCHScore: a score minus the mean of the frozen SAEs' at the same D, K, beta and k.

    Raises AssayError where no frozen score is given or one is not finite. Source: arXiv 2606.24716.
    """
    frozen = np.asarray(frozen_scores, dtype=np.float64)
    if frozen.ndim != 1 or len(frozen) == 0:
        raise AssayError("frozen_scores is empty; give the score of one frozen SAE or more")
    if not np.isfinite(frozen).all():
        place = int((~np.isfinite(frozen)).argmax())
        raise AssayError(f"frozen_scores[{place}] is {frozen[place]}; every score must be finite")
    spread = float(frozen.std(ddof=1)) if len(frozen) > 1 else math.nan
    return MatchDifference(float(score - frozen.mean()), spread, len(frozen))
