"""The auxiliary loss that gives dead latents a gradient, and the count that says which are dead."""

import torch
from torch import Tensor

from pipeline.saes.rule import mse
from pipeline.saes.weights import product


def auxiliary_loss(residual: Tensor, pre: Tensor, dead: Tensor, decoder: Tensor, aux_k: int) -> Tensor:
    """Return the MSE (S,) of the residual and what the strongest dead latents make of it.

    `residual` (S, B, d) is input - reconstruction, which already has the decoder's bias in it: it is not
    added again, and no gradient flows into it. For each row the min(aux_k, number of dead) largest
    `pre` (S, B, D) among `dead` (S, D) bool count, after ReLU, through `decoder` (S, D, d). 0 where
    aux_k is 0 or nothing is dead. Source: Gao et al. 2024 (arXiv 2406.04093, appendix A.2).
    """
    n_dead = dead.sum(dim=1)
    n_kept = min(aux_k, int(n_dead.max()))
    if n_kept == 0:
        return residual.new_zeros(len(residual))
    among = pre.masked_fill(~dead[:, None], -torch.inf)
    values, latents = among.topk(n_kept, dim=-1, sorted=False)
    codes = torch.zeros_like(pre).scatter(-1, latents, values.relu())
    revived = product(codes, decoder)
    return mse(residual.detach(), revived) * (n_dead > 0)


class Silence:
    """For how many batches each latent of S SAEs has not fired."""

    def __init__(self, n_saes: int, n_latents: int, device: torch.device) -> None:
        self.batches = torch.zeros(n_saes, n_latents, dtype=torch.int32, device=device)

    def observe(self, codes: Tensor) -> None:
        """Count one batch of codes (S, B, D)."""
        self.batches = torch.where((codes > 0).any(dim=1), 0, self.batches + 1)

    def dead(self, after: int) -> Tensor:
        """Return (S, D) bool: silent for at least `after` batches."""
        return self.batches >= after
