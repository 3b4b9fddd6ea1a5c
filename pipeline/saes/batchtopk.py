"""batchtopk: the K x B largest codes of a batch; a threshold afterwards (Bussmann et al. 2024).

Source: arXiv 2412.06410.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from pipeline.saes.activation import Activation
from pipeline.saes.rule import Rule


@dataclass(kw_only=True)
class BatchTopK(Rule):
    """In training the K x B largest ReLU outputs of a batch, in evaluation those above a threshold.

    The threshold is the paper's: the mean over batches of the smallest code that is kept. It is taken from
    the validation rows, with the weights of the checkpoint: a moving average over training batches lags
    behind the weights at first, and lets too many latents fire on rows that were not trained on once the
    dictionary has learned the training rows by heart.
    """

    k: int
    l1: float
    aux_k: int
    aux_coefficient: float
    thresholds: Tensor

    def codes(self, pre: Tensor) -> Tensor:
        """Return codes (S, B, D) with at most K x B that are not 0 in each member."""
        flat = pre.relu().flatten(1)
        values, places = self._kept(flat, pre.shape[1])
        return torch.zeros_like(flat).scatter(1, places, values).view_as(pre)

    def _kept(self, flat: Tensor, n_rows: int) -> tuple[Tensor, Tensor]:
        n_kept = min(self.k * n_rows, flat.shape[1])
        values, places = flat.topk(n_kept, dim=1, sorted=False)
        return values, places

    def evaluate(self, pre: Tensor) -> Tensor:
        """Return codes (S, B, D): ReLU where it is above the threshold."""
        return torch.where(pre > self.thresholds[:, None, None], pre, 0).relu()

    @torch.no_grad()
    def calibrate(self, blocks: Iterable[Tensor]) -> None:
        """Set the threshold to the mean, over rows, of the smallest positive code kept in their block.

        Averaged in float64; a block in which nothing is positive does not count, and where none counts
        the threshold is 0.
        """
        total = torch.zeros_like(self.thresholds, dtype=torch.float64)
        weight = torch.zeros_like(total)
        for pre in blocks:
            kept, _ = self._kept(pre.relu().flatten(1), pre.shape[1])
            smallest = kept.masked_fill(kept <= 0, torch.inf).amin(dim=1).double()
            fired = torch.isfinite(smallest)
            total += torch.where(fired, smallest, 0) * pre.shape[1]
            weight += fired * pre.shape[1]
        self.thresholds = torch.where(weight > 0, total / weight, 0).float()

    def activation(self, member: int) -> Activation:
        """Return the threshold, one for all latents."""
        return Activation("threshold", k=self.k, threshold=self.thresholds[member : member + 1].cpu().clone())

    def threshold(self, n_saes: int) -> Tensor:
        """Return the thresholds (S,)."""
        return self.thresholds.cpu()


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
    thresholds = torch.zeros(n_saes, device=device)
    return BatchTopK(k=k, l1=l1, aux_k=aux_k, aux_coefficient=aux_coefficient, thresholds=thresholds)
