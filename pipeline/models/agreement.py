"""How far numbers of one computation on two devices, or at two precisions, may lie apart."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

TOLERANCES = {"float32": 1e-4, "tf32": 2e-2, "bfloat16": 0.15, "float16": 2e-2}
"""The largest deviation allowed from float32 on a CPU, as a share of what `Deviation.scale` says.

float32 has 24 bits, tf32 and float16 have 11, bfloat16 has 8. The largest of many thousand numbers of a deep
network decides: EfficientNet-Lite0 in bfloat16 comes to 0.08, small networks to 0.005.
"""
MEDIAN = 0.2
"""The share of the tolerance that the median deviation may take."""


@dataclass(frozen=True)
class Deviation:
    """The largest and the median absolute deviation of an array, and its own largest absolute value."""

    largest: float
    median: float
    scale: float

    @property
    def relative(self) -> float:
        """The largest deviation as a share of the scale; 0 where both arrays are 0."""
        return self.largest / self.scale if self.scale else float(self.largest > 0)

    def within(self, precision: str) -> bool:
        """Say whether the deviation is one that the precision explains."""
        if not np.isfinite(self.relative):
            return False
        allowed = TOLERANCES[precision]
        return self.relative <= allowed and self.median <= MEDIAN * allowed * self.scale


def deviation(found: ArrayLike, expected: ArrayLike) -> Deviation:
    """Return how far two arrays of one shape lie apart; ValueError for two shapes, and for no numbers."""
    ours, theirs = np.asarray(found, dtype=np.float64), np.asarray(expected, dtype=np.float64)
    if ours.shape != theirs.shape or not ours.size:
        raise ValueError(f"{ours.shape} and {theirs.shape} cannot be compared")
    apart = np.abs(ours - theirs)
    return Deviation(float(apart.max()), float(np.median(apart)), float(np.abs(theirs).max()))
