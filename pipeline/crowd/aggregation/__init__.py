"""Aggregations: from ratings to values. One file a method; `registry` finds it by name."""

from pipeline.crowd.aggregation.aggregating import aggregate
from pipeline.crowd.aggregation.posterior import ERROR_RATE, PRIOR_RANGE, UNIFORM_PRIOR, bragg
from pipeline.crowd.aggregation.registry import NAMES as METHODS
from pipeline.crowd.aggregation.registry import PAPER_METHODS
from pipeline.crowd.aggregation.votes import PAIR

__all__ = [
    "ERROR_RATE",
    "METHODS",
    "PAIR",
    "PAPER_METHODS",
    "PRIOR_RANGE",
    "UNIFORM_PRIOR",
    "aggregate",
    "bragg",
]
