"""FMS, the feature monosemanticity score: does one latent hold an attribute, and no other latent with it?

One of the checks that the SAE track checks in turn: `sanity` says whether it tells trained SAEs from others.
"""

from dataclasses import dataclass, fields
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from pipeline.errors import AssayError
from pipeline.matching.codes import BoolArray, Codes, FloatArray, IntArray, attribute_matrix
from pipeline.matching.level_tree import Cells, Lookup, depth_accuracies, stump_accuracy, stumps
from pipeline.matching.real_codes import sparse_codes
from pipeline.seeds import generator

Mode = Literal["corrected", "reference"]
MODES = ("corrected", "reference")

FEWEST = 5
"""Images of each class that a tree is grown on, and that it is judged on, at least."""
TOO_FEW_POSITIVES = "too few positives"
TOO_FEW_NEGATIVES = "too few negatives"
NOTHING_VARIES = "no latent varies"
CHANCE = 0.5
"""The accuracy, on as many positives as negatives, of a tree without a latent to cut on."""


@dataclass(frozen=True, eq=False)
class Fms:
    """FMS of A attributes; every array is (A,), and NaN (latents and depth: -1 and 0) where undefined.

    values: stump_accuracy (ms_local + ms_global) / 2. stump_accuracy: A_1, that of the best latent alone.
    removed_accuracy: A_1 after the n_removed best latents are taken away. ms_local: 2 (stump_accuracy -
    removed_accuracy). ms_global: 1 - the mean of A_l - A_1 over the depths 2 .. L. latents: the stump's.
    depth: L. n_images: of the balanced sample. reasons: why there is no score ("too few positives",
    "too few negatives", "no latent varies"), else "".
    """

    values: FloatArray
    stump_accuracy: FloatArray
    removed_accuracy: FloatArray
    ms_local: FloatArray
    ms_global: FloatArray
    latents: IntArray
    depth: IntArray
    n_images: IntArray
    reasons: tuple[str, ...]
    n_removed: int
    mode: Mode

    @property
    def mean(self) -> float:
        """The mean over the attributes that have a score, NaN if none has."""
        known = self.values[~np.isnan(self.values)]
        return float(known.mean()) if len(known) else float("nan")

    @property
    def n_undefined(self) -> int:
        """How many attributes have no score."""
        return int(np.isnan(self.values).sum())


@dataclass(frozen=True)
class _Attribute:
    """One attribute's row of `Fms`."""

    values: float = np.nan
    stump_accuracy: float = np.nan
    removed_accuracy: float = np.nan
    ms_local: float = np.nan
    ms_global: float = np.nan
    latents: int = -1
    depth: int = 0
    n_images: int = 0
    reasons: str = ""


def fms(
    codes: Codes, attributes: ArrayLike, seed: int, *, n_removed: int = 1, mode: Mode = "corrected"
) -> Fms:
    """Return the FMS@n_removed of each attribute (N, A), from trees on the real codes (N, D).

    For each attribute as many images without it as with it are drawn, by seed and attribute (the larger
    class loses images). A Gini tree without a limit of depth is grown on them; A_l is its accuracy cut off
    at depth l, A_1 that of its root alone. To remove the n best latents means n times to take away the
    root's latent and to grow anew: what is left has the best stump of the others as its root.
        MS_global = 1 - mean over l = 2 .. L of (A_l - A_1), 1 where L = 1
        MS_local = 2 (A_1 - A_1 after removing n_removed latents; 0.5 where no latent is left that varies)
        FMS = A_1 (MS_local + MS_global) / 2
    mode="corrected": the tree is grown on a random half of the positives and of the negatives, and every
    A_l is its accuracy on the other half; MS_global is above 1 where deeper trees only overfit.
    mode="reference": grown and judged on all drawn images, as the authors' code does, so that A_l goes to 1
    for any codes that tell images apart.
    An attribute needs 5 images of each class to grow a tree on and 5 to judge it on, else it has no score.
    Raises AssayError for shapes that do not fit, values that are no attribute or not finite, a bad
    n_removed or mode. Source: Haerle et al., "Measuring and Guiding Monosemanticity" (arXiv 2506.19382).
    """
    if mode not in MODES:
        raise AssayError(f"mode is {mode!r}; choose from {', '.join(MODES)}")
    if int(n_removed) != n_removed or n_removed < 1:
        raise AssayError(f"n_removed is {n_removed}; remove at least 1 latent")
    sparse = sparse_codes(codes)
    present = attribute_matrix(attributes, sparse.shape[0])
    cells = Cells.of(sparse)
    rows = [
        _attribute(cells, present[:, a], generator(seed, "fms", a), n_removed, mode)
        for a in range(present.shape[1])
    ]
    columns = {field.name: [getattr(row, field.name) for row in rows] for field in fields(_Attribute)}
    reasons = tuple(str(reason) for reason in columns.pop("reasons"))
    arrays = {name: np.array(column) for name, column in columns.items()}
    return Fms(**arrays, reasons=reasons, n_removed=n_removed, mode=mode)


def _attribute(
    cells: Cells, present: BoolArray, rng: np.random.Generator, n_removed: int, mode: Mode
) -> _Attribute:
    needed = FEWEST if mode == "reference" else 2 * FEWEST
    for rows, reason in ((present, TOO_FEW_POSITIVES), (~present, TOO_FEW_NEGATIVES)):
        if rows.sum() < needed:
            return _Attribute(reasons=reason)
    fit, held = _samples(present, rng, mode)
    grown, judged = (cells.of_rows(rows) for rows in (fit, held))
    labelled = grown, present[fit], Lookup.of(judged), present[held]
    n_images = len(fit) if mode == "reference" else len(fit) + len(held)
    best = stumps(grown, present[fit])
    if not len(best.node):
        return _Attribute(n_images=n_images, reasons=NOTHING_VARIES)
    accuracies = depth_accuracies(*labelled)
    alone = float(accuracies[0])
    removed = stump_accuracy(best, n_removed, *labelled) if n_removed < len(best.node) else CHANCE
    local = 2 * (alone - removed)
    over_all = 1 - float(np.mean(accuracies[1:] - alone)) if len(accuracies) > 1 else 1.0
    return _Attribute(
        values=alone * (local + over_all) / 2,
        stump_accuracy=alone,
        removed_accuracy=removed,
        ms_local=local,
        ms_global=over_all,
        latents=int(best.latent[0]),
        depth=len(accuracies),
        n_images=n_images,
    )


def _samples(present: BoolArray, rng: np.random.Generator, mode: Mode) -> tuple[IntArray, IntArray]:
    """Return the images to grow a tree on and those to judge it on, each half positive."""
    classes = [rng.permutation(np.flatnonzero(rows)) for rows in (present, ~present)]
    n = min(len(rows) for rows in classes)
    if mode == "reference":
        drawn = np.concatenate([rows[:n] for rows in classes])
        return drawn, drawn
    fit, held = (
        np.concatenate([rows[part] for rows in classes]) for part in (slice(n // 2), slice(n // 2, n))
    )
    return fit, held
