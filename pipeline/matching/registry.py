"""Matchers by the name in `matching.name`: how latents are chosen for an attribute.

A matcher is a module with `match(codes, attributes, *, betas, max_latents) -> list[Matching]`, for codes
(N, D) and attributes (N, A): one matching a beta in their order, or one alone where the matcher knows no beta
(`one_to_one`, `nn_omp`; see `Matching.beta`). Held-out predictions are the matching's own:
`Matching.predict` and `Matching.counts`.
"""

import importlib
from collections.abc import Sequence
from typing import Protocol, cast

from numpy.typing import ArrayLike

from pipeline.errors import AssayError
from pipeline.matching.codes import Codes
from pipeline.matching.matching import Matching

NAMES = ("fbmp", "one_to_one", "ranked_or", "nn_omp")


class Match(Protocol):
    """The calling convention of every matcher."""

    def __call__(
        self, codes: Codes, attributes: ArrayLike, *, betas: Sequence[float], max_latents: int
    ) -> list[Matching]:
        """Return the matchings of codes (N, D) with attributes (N, A)."""


def matcher(name: str) -> Match:
    """Return the `match` of that matcher; AssayError for an unknown name."""
    if name not in NAMES:
        raise AssayError(f"matching.name={name!r} is not known; choose from {', '.join(NAMES)}")
    return cast(Match, importlib.import_module(f"pipeline.matching.{name}").match)
