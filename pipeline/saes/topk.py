"""topk: the K largest pre-activations of each row (Gao et al. 2024, arXiv 2406.04093)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from pipeline.saes.activation import Activation
from pipeline.saes.rule import Rule


@dataclass(kw_only=True)
class TopK(Rule):
    """Keeps min(k, D) of each row, and applies ReLU after the selection: a negative one does not fire."""

    k: int
    l1: float
    aux_k: int
    aux_coefficient: float

    def codes(self, pre: Tensor) -> Tensor:
        """Return codes (S, B, D)."""
        values, latents = pre.topk(min(self.k, pre.shape[-1]), dim=-1, sorted=False)
        return torch.zeros_like(pre).scatter(-1, latents, values.relu())

    def activation(self, member: int) -> Activation:
        """Return the same rule, for rows."""
        return Activation("topk", k=self.k)


def rule(
    *,
    n_saes: int,
    n_latents: int,
    device: torch.device,
    k: int = 32,
    l1: float = 0.0,
    aux_k: int = 512,
    aux_coefficient: float = 1 / 32,
) -> TopK:
    """Return the rule of `n_saes` TopK SAEs."""
    return TopK(k=k, l1=l1, aux_k=aux_k, aux_coefficient=aux_coefficient)
