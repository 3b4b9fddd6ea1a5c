"""What the trainer asks of a variant; every tensor is stacked over S SAEs of one shape."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pipeline.saes.activation import Activation
from pipeline.saes.weights import Stack


class Objective(NamedTuple):
    """`loss` (S,) without the auxiliary part, and `reconstruction` (S, B, d) in normalised space."""

    loss: Tensor
    reconstruction: Tensor


class Rule(ABC):
    """Codes from pre-activations, the loss, and what is left in the file; a variant overrides what differs.

    The default objective is the MSE, plus `l1` times the mean absolute code; its gradient reaches what
    the stack holds. `aux_k` = 0: dead latents are not revived.
    """

    l1: float = 0.0
    aux_k: int = 0
    aux_coefficient: float = 0.0

    def learned(self) -> list[dict[str, Any]]:
        """Return Adam's further parameter groups."""
        return []

    @abstractmethod
    def codes(self, pre: Tensor) -> Tensor:
        """Return training codes (S, B, D) for pre-activations (S, B, D)."""

    def evaluate(self, pre: Tensor) -> Tensor:
        """Return codes (S, B, D) as the finished SAE gives them: each row on its own."""
        return self.codes(pre)

    def objective(self, inputs: Tensor, pre: Tensor, codes: Tensor, stack: Stack) -> Objective:
        """Return the loss for normalised inputs (S, B, d) and their codes."""
        reconstruction = stack.decode(codes)
        loss = mse(inputs, reconstruction)
        return Objective(
            loss + self.l1 * codes.abs().mean(dim=2).mean(dim=1) if self.l1 else loss, reconstruction
        )

    def calibrate(self, blocks: Iterable[Tensor]) -> None:  # noqa: B027  most variants need nothing
        """Fit what `evaluate` needs to pre-activations (S, B, D) of validation rows, block by block.

        The blocks are computed only where a variant asks for them.
        """

    @abstractmethod
    def activation(self, member: int) -> Activation:
        """Return the finished activation of one member."""

    def threshold(self, n_saes: int) -> Tensor:
        """Return each member's mean threshold (S,), NaN where the variant has none."""
        return torch.full((n_saes,), torch.nan)


def mse(inputs: Tensor, reconstruction: Tensor) -> Tensor:
    """Return the mean squared error (S,) of (S, B, d) over rows and features."""
    return (inputs - reconstruction).square().mean(dim=2).mean(dim=1)
