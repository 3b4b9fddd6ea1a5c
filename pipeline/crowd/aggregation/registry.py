"""Aggregations by name."""

from importlib import import_module
from typing import Protocol, cast

import pandas as pd

from pipeline.crowd.aggregation.values import Values
from pipeline.crowd.aggregation.votes import Votes
from pipeline.errors import AssayError

PAPER_METHODS = ("avg", "majority", "bragg_uniform", "bragg_siglip")
"""The aggregations of "Beyond Top Activations" (arXiv 2506.07985)."""

NAMES = (*PAPER_METHODS, "bragg_em", "dawid_skene", "glad", "mace")
"""All aggregations; each is the module of its name."""


class Aggregation(Protocol):
    """Values of the pairs from their votes; a method ignores what it does not use."""

    def __call__(
        self,
        votes: Votes,
        *,
        error_rate: float | tuple[float, float] | None = None,
        prior: float | pd.DataFrame | None = None,
    ) -> Values:
        """Return the values of the P pairs of votes."""


def aggregation(name: str) -> Aggregation:
    """Return the `values` function of the aggregation of that name; AssayError where there is none."""
    if name not in NAMES:
        raise AssayError(f"unknown aggregation {name!r}; known: {', '.join(NAMES)}")
    return cast(Aggregation, import_module(f"pipeline.crowd.aggregation.{name}").values)
