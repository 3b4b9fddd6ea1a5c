"""matryoshka: BatchTopK whose prefixes reconstruct on their own (Bussmann et al. 2025, arXiv 2503.17547)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from pipeline.saes.batchtopk import BatchTopK
from pipeline.saes.rule import Objective, mse
from pipeline.saes.weights import Stack, product


@dataclass(kw_only=True)
class Matryoshka(BatchTopK):
    """The loss is the mean of the MSEs of all prefixes of the dictionary, decoded cumulatively."""

    ends: tuple[int, ...]

    def objective(self, inputs: Tensor, pre: Tensor, codes: Tensor, stack: Stack) -> Objective:
        """Return the mean over prefixes, and the reconstruction by the whole dictionary."""
        reconstruction = stack.decoder_bias[:, None].expand_as(inputs)
        losses = []
        for start, end in zip((0, *self.ends), self.ends, strict=False):
            part = product(codes[..., start:end], stack.decoder[:, start:end])
            reconstruction = reconstruction + part
            losses.append(mse(inputs, reconstruction))
        loss = torch.stack(losses).mean(dim=0)
        return Objective(
            loss + self.l1 * codes.abs().mean(dim=2).mean(dim=1) if self.l1 else loss, reconstruction
        )


def prefix_ends(n_latents: int, n_prefixes: int) -> tuple[int, ...]:
    """Return where the prefixes end: D and its halves, rounded up; fewer than n_prefixes where D is small.

    The last one is D: `dictionary_size` is the total, not the size of the largest group.
    """
    return tuple(sorted({-(-n_latents // 2**i) for i in range(n_prefixes)}))


def rule(
    *,
    n_saes: int,
    n_latents: int,
    device: torch.device,
    k: int = 32,
    l1: float = 0.0,
    aux_k: int = 512,
    aux_coefficient: float = 1 / 32,
    n_prefixes: int = 6,
) -> Matryoshka:
    """Return the rule of `n_saes` Matryoshka SAEs of `n_latents` latents in total."""
    ends = prefix_ends(n_latents, n_prefixes)
    return Matryoshka(
        k=k,
        l1=l1,
        aux_k=aux_k,
        aux_coefficient=aux_coefficient,
        thresholds=torch.zeros(n_saes, device=device),
        ends=ends,
    )
