"""jumprelu: a learned threshold a latent, and a penalty on L0 (Rajamanoharan et al. 2024).

Source: arXiv 2407.14435.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pipeline.saes.activation import Activation
from pipeline.saes.rule import Objective, Rule
from pipeline.saes.weights import Stack


class _Jump(torch.autograd.Function):
    """pre where pre > threshold; the threshold's gradient is the paper's equation 11."""

    @staticmethod
    def forward(ctx: Any, pre: Tensor, threshold: Tensor, bandwidth: float) -> Tensor:
        ctx.save_for_backward(pre, threshold)
        ctx.bandwidth = bandwidth
        return torch.where(pre > threshold[:, None], pre, 0)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        pre, threshold = ctx.saved_tensors
        (gradient,) = gradients
        near = _near(pre, threshold, ctx.bandwidth) * gradient
        for_threshold = -(threshold / ctx.bandwidth) * near.sum(dim=1)
        return torch.where(pre > threshold[:, None], gradient, 0), for_threshold, None


class _Count(torch.autograd.Function):
    """1 where pre > threshold; the threshold's gradient is the paper's equation 12."""

    @staticmethod
    def forward(ctx: Any, pre: Tensor, threshold: Tensor, bandwidth: float) -> Tensor:
        ctx.save_for_backward(pre, threshold)
        ctx.bandwidth = bandwidth
        return (pre > threshold[:, None]).to(pre.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor, None]:
        pre, threshold = ctx.saved_tensors
        (gradient,) = gradients
        return None, -(_near(pre, threshold, ctx.bandwidth) * gradient).sum(dim=1) / ctx.bandwidth, None


def _near(pre: Tensor, threshold: Tensor, bandwidth: float) -> Tensor:
    return ((pre - threshold[:, None]).abs() < bandwidth / 2).to(pre.dtype)


@dataclass(kw_only=True)
class JumpReLU(Rule):
    """Codes are pre where pre > exp(tau); the loss is MSE + l0_coefficient x mean L0.

    `tau` (S, D) is learned with a rate of its own: Adam moves a parameter by about its rate at each step
    whatever the gradient, so that at the weights' rate a threshold could not leave its start.
    """

    l0_coefficient: float
    bandwidth: float
    learning_rate: float
    tau: Tensor

    def learned(self) -> list[dict[str, Any]]:
        """Return the log-thresholds."""
        return [{"params": [self.tau], "lr": self.learning_rate}]

    def codes(self, pre: Tensor) -> Tensor:
        """Return codes (S, B, D)."""
        codes: Tensor = _Jump.apply(pre, self.tau.exp(), self.bandwidth)
        return codes

    def objective(self, inputs: Tensor, pre: Tensor, codes: Tensor, stack: Stack) -> Objective:
        """Return MSE + l0_coefficient x the mean number of latents that fire."""
        error, reconstruction = super().objective(inputs, pre, codes, stack)
        l0 = _Count.apply(pre, self.tau.exp(), self.bandwidth).sum(dim=2).mean(dim=1)
        return Objective(error + self.l0_coefficient * l0, reconstruction)

    def activation(self, member: int) -> Activation:
        """Return a threshold for each latent."""
        return Activation("threshold", threshold=self.tau[member].detach().exp().cpu())

    def threshold(self, n_saes: int) -> Tensor:
        """Return the mean thresholds (S,)."""
        return self.tau.detach().exp().mean(dim=1).cpu()


def rule(
    *,
    n_saes: int,
    n_latents: int,
    device: torch.device,
    l0_coefficient: float = 0.001,
    bandwidth: float = 0.5,
    initial_threshold: float = 0.5,
    threshold_learning_rate: float = 0.02,
) -> JumpReLU:
    """Return the rule of `n_saes` JumpReLU SAEs; every threshold starts at `initial_threshold` > 0."""
    start = torch.tensor(initial_threshold, device=device).log()
    tau = start.expand(n_saes, n_latents).clone().requires_grad_(True)
    return JumpReLU(
        l0_coefficient=l0_coefficient, bandwidth=bandwidth, learning_rate=threshold_learning_rate, tau=tau
    )
