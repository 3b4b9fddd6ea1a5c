"""From pre-activations to codes: the rules that are kept in a file of weights."""

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pipeline.errors import AssayError
from pipeline.seeds import generator

KINDS = ("topk", "threshold", "relu", "noise")


@dataclass(frozen=True)
class Activation:
    """How codes come from pre-activations (N, D); a latent fires where its code is above 0.

    topk: the `k` largest of each row (on a tie the lower latent), and ReLU after the selection: a
    negative among the k largest is code 0 and does not fire. threshold: ReLU where the pre-activation is
    above `threshold`, (D,) or (1,). relu: ReLU alone. noise: `k` latents of each row with half-normal
    codes, drawn from (`seed`, the row's content) and from nothing else.
    """

    kind: str
    k: int | None = None
    threshold: Tensor | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        """Raise AssayError for an unknown kind, or one without what it needs."""
        if self.kind not in KINDS:
            raise AssayError(f"activation kind {self.kind!r} is not known; known: {', '.join(KINDS)}")
        needs = {"topk": ("k",), "threshold": ("threshold",), "relu": (), "noise": ("k", "seed")}[self.kind]
        if missing := [name for name in needs if getattr(self, name) is None]:
            raise AssayError(f"activation kind {self.kind!r} lacks {', '.join(missing)}")
        if self.k is not None and self.k < 1:
            raise AssayError(f"activation k={self.k}: at least 1 latent must be kept")

    def codes(self, pre: Tensor) -> Tensor:
        """Return codes (N, D) for pre-activations (N, D); not for noise, which has none."""
        if self.kind == "topk":
            assert self.k is not None
            return torch.where(largest(pre, self.k), pre, 0).relu()
        if self.kind == "threshold":
            assert self.threshold is not None
            return torch.where(pre > self.threshold.to(pre.device), pre, 0).relu()
        return pre.relu()

    def facts(self) -> dict[str, Any]:
        """Return what is not a tensor: kind, and k and seed where they are set."""
        named = {"kind": self.kind, "k": self.k, "seed": self.seed}
        return {name: value for name, value in named.items() if value is not None}


def largest(pre: Tensor, k: int) -> Tensor:
    """Return (N, D) bool: the k largest of each row (all where k >= D), on a tie the lower column."""
    n_kept = min(k, pre.shape[1])
    smallest = pre.topk(n_kept, dim=1, sorted=False).values.amin(dim=1, keepdim=True)
    above, tied = pre > smallest, pre == smallest
    room = n_kept - above.sum(dim=1)
    crowded = tied.sum(dim=1) > room
    if crowded.any():
        tied[crowded] &= tied[crowded].cumsum(dim=1) <= room[crowded, None]
    return above | tied


def noise(rows: np.ndarray[Any, Any], n_latents: int, k: int, seed: int) -> np.ndarray[Any, Any]:
    """Return codes (N, D) float32: min(k, D) latents a row, drawn from the seed and the row's content."""
    codes = np.zeros((len(rows), n_latents), dtype=np.float32)
    contents = np.ascontiguousarray(rows, dtype=np.float32) + np.float32(0)  # -0 and 0 are one content
    for row, content in enumerate(contents):
        random = generator(seed, "sae", "noise", n_latents, hashlib.sha256(content.tobytes()).hexdigest())
        chosen = random.choice(n_latents, size=min(k, n_latents), replace=False)
        values = np.abs(random.standard_normal(len(chosen))).astype(np.float32)
        codes[row, chosen] = np.maximum(values, np.finfo(np.float32).tiny)
    return codes
