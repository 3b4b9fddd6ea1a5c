"""batchtopk: the K x B largest codes of a batch; a threshold afterwards (Bussmann et al. 2024).

Source: arXiv 2412.06410.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from pipeline.saes.activation import Activation
from pipeline.saes.rule import Rule

MEMORY = 0.5
"""Share of the threshold's moving average that a batch leaves in place."""


@dataclass(kw_only=True)
class BatchTopK(Rule):
    """In training the K x B largest ReLU outputs of a batch, in evaluation those above a threshold.

    The threshold is the moving average of the smallest code that was kept, with the start's bias taken
    out (as in Adam: Kingma & Ba 2015, section 3), so that it can be used after one batch. A batch in
    which nothing is positive leaves it; before any positive code it is 0. Averaged in float64.
    """

    k: int
    l1: float
    aux_k: int
    aux_coefficient: float
    total: Tensor
    weight: Tensor

    def codes(self, pre: Tensor) -> Tensor:
        """Return codes (S, B, D) with at most K x B that are not 0 in each member."""
        flat = pre.relu().flatten(1)
        n_kept = min(self.k * pre.shape[1], flat.shape[1])
        values, places = flat.topk(n_kept, dim=1, sorted=False)
        return torch.zeros_like(flat).scatter(1, places, values).view_as(pre)

    def evaluate(self, pre: Tensor) -> Tensor:
        """Return codes (S, B, D): ReLU where it is above the threshold."""
        return torch.where(pre > self._averages()[:, None, None], pre, 0).relu()

    @torch.no_grad()
    def observe(self, codes: Tensor) -> None:
        """Move the average towards the smallest positive code of the batch."""
        smallest = codes.masked_fill(codes <= 0, torch.inf).flatten(1).amin(dim=1).double()
        fired = torch.isfinite(smallest)
        total = MEMORY * self.total + (1 - MEMORY) * torch.where(fired, smallest, 0)
        self.total = torch.where(fired, total, self.total)
        self.weight = torch.where(fired, MEMORY * self.weight + (1 - MEMORY), self.weight)

    def activation(self, member: int) -> Activation:
        """Return the threshold, one for all latents."""
        return Activation("threshold", k=self.k, threshold=self._averages()[member : member + 1].cpu())

    def threshold(self, n_saes: int) -> Tensor:
        """Return the thresholds (S,)."""
        return self._averages().cpu()

    def _averages(self) -> Tensor:
        return torch.where(self.weight > 0, self.total / self.weight, 0).float()


def rule(
    *,
    n_saes: int,
    n_latents: int,
    device: torch.device,
    k: int = 32,
    l1: float = 0.0,
    aux_k: int = 512,
    aux_coefficient: float = 1 / 32,
) -> BatchTopK:
    """Return the rule of `n_saes` BatchTopK SAEs."""
    zeros = torch.zeros(n_saes, dtype=torch.float64, device=device)
    return BatchTopK(
        k=k, l1=l1, aux_k=aux_k, aux_coefficient=aux_coefficient, total=zeros, weight=zeros.clone()
    )
