"""U units, each paired with one concept: what the metrics of NeuronEval read."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from pipeline.errors import AssayError
from pipeline.neuron_eval.columns import (
    BoolArray,
    Columns,
    FloatArray,
    IntArray,
    columns,
    concept_columns,
)
from pipeline.seeds import generator

ALPHA = 0.005
PENALTY = 1.0
PRESENT = 0.5
TOP_SHARE = 0.002
N_TOP = N_RANDOM = 25


@dataclass(frozen=True, eq=False)
class Pairs:
    """Activations and concepts (U, N), column u of one against column u of the other.

    alpha (U,) is the share of images at which a unit counts as active; penalty is WPMI's lambda;
    seed is that of the top-and-random images; first_unit is the number of the first column, so that
    a block of columns draws what the whole would.
    """

    activations: Columns
    concepts: Columns
    alpha: FloatArray
    penalty: float = PENALTY
    seed: int | None = None
    first_unit: int = 0

    @property
    def n_images(self) -> int:
        """N."""
        return len(self.activations.values[0])

    @cached_property
    def active(self) -> BoolArray:
        """A: the ceil(alpha N) largest activations of each unit, ties in, (U, N)."""
        return self.activations.top(top_counts(self.alpha, self.n_images))

    @cached_property
    def present(self) -> BoolArray:
        """C: where the concept's presence is at least 1/2, (U, N)."""
        return np.asarray(self.concepts.values >= PRESENT)

    @cached_property
    def n_active(self) -> FloatArray:
        """The images in A, (U,)."""
        return counted(self.active)

    @cached_property
    def n_present(self) -> FloatArray:
        """The images in C, (U,)."""
        return counted(self.present)

    @cached_property
    def n_both(self) -> FloatArray:
        """The images in A and C, (U,)."""
        return counted(self.active & self.present)

    @cached_property
    def top_and_random(self) -> tuple[IntArray, ...]:
        """The images of the top-and-random metrics, one vector a unit.

        25 of the top .2% (ceil(.002 N) images; all of them where they are fewer), then 25 of all N;
        each without replacement, so that an image may stand once in each half. Images tied at the
        edge of the top are drawn into it. Unit u's images depend on its activations and (seed, u)
        alone. Raises AssayError without a seed.
        """
        if self.seed is None:
            raise AssayError("the top-and-random metrics draw images; give them a seed")
        return tuple(
            top_and_random_images(generator(self.seed, "top_and_random", self.first_unit + u), own)
            for u, own in enumerate(self.activations.values)
        )

    def with_concepts(self, concepts: Columns) -> "Pairs":
        """Return the same units, paired with other concepts; the sorted activations are shared."""
        return replace(self, concepts=concepts)


def pairs(
    activations: ArrayLike,
    concepts: ArrayLike,
    *,
    alpha: ArrayLike = ALPHA,
    penalty: float = PENALTY,
    seed: int | None = None,
    first_unit: int = 0,
) -> Pairs:
    """Return activations (N,) or (N, U) paired with concepts of the same shape, in [0, 1].

    alpha in (0, 1) is one share or one a unit (U,); penalty is in [0, 1].
    Raises AssayError for shapes that differ, NaN, infinity, and values out of these ranges.
    """
    a, c = columns("activations", activations), concept_columns(concepts)
    if a.values.shape != c.values.shape:
        raise AssayError(
            f"activations are {np.shape(activations)} and concepts {np.shape(concepts)} (images, units); "
            "give each unit its one concept"
        )
    if not 0 <= penalty <= 1:
        raise AssayError(f"penalty is {penalty}; WPMI's lambda is in [0, 1]")
    return Pairs(a, c, unit_shares(alpha, len(a.values)), penalty, seed, first_unit)


def top_and_random_images(rng: np.random.Generator, activations: FloatArray) -> IntArray:
    """Return 25 images of the top .2% by activations (N,), then 25 of all; see `Pairs.top_and_random`."""
    n_images = len(activations)
    n_top = int(top_counts(np.array([TOP_SHARE]), n_images)[0])
    cutoff = np.partition(activations, n_images - n_top)[n_images - n_top]
    above, tied = np.flatnonzero(activations > cutoff), np.flatnonzero(activations == cutoff)
    top = np.concatenate([above, rng.choice(tied, n_top - len(above), replace=False)])
    best = rng.choice(top, min(N_TOP, n_top), replace=False)
    return np.concatenate([best, rng.choice(n_images, min(N_RANDOM, n_images), replace=False)])


def unit_shares(alpha: ArrayLike, n_units: int) -> FloatArray:
    """Return alpha, one share or (U,), as (U,); raises AssayError outside (0, 1) or for another shape."""
    shares = np.asarray(alpha, dtype=np.float64)
    if shares.shape not in ((), (n_units,)):
        raise AssayError(
            f"alpha has shape {shares.shape}; give one share, or one for each of {n_units} units"
        )
    shares = np.broadcast_to(shares, (n_units,))
    wrong = ~((shares > 0) & (shares < 1))
    if wrong.any():
        raise AssayError(f"alpha of unit {wrong.argmax()} is {shares[wrong][0]}; it must be in (0, 1)")
    return shares


def counted(images: BoolArray) -> FloatArray:
    """Return how many images of each row (U, N) hold, (U,), in float64."""
    return np.asarray(np.count_nonzero(images, axis=1), dtype=np.float64)


def top_counts(shares: FloatArray, n_images: int) -> IntArray:
    """Return ceil(share N), (U,); a product that rounding alone lifts over an integer is that integer."""
    return np.ceil(np.round(shares * n_images, 9)).clip(1).astype(np.int64)
