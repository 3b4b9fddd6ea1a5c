"""What an aggregation returns for P pairs."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pipeline.crowd.aggregation.votes import BoolArray
from pipeline.crowd.arrays import FloatArray


@dataclass(frozen=True)
class Values:
    """value (P,): P(the concept is present); flags: name to (P,), the pairs that it marks."""

    value: FloatArray
    flags: Mapping[str, BoolArray] = field(default_factory=dict)
