"""Adam over a stack, so that no member's step depends on its place among others."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


class MemberwiseAdam:
    """Fused Adam (Kingma & Ba 2015) that takes each member's slice of a stacked tensor on its own.

    One fused step over a whole stack may round the same number differently by its place (the ends of a
    vector loop), and selections of the largest codes turn a last bit into another SAE.
    """

    def __init__(self, groups: Sequence[dict[str, Any]]) -> None:
        """Take groups of stacked leaf tensors (S, ...) under "params", each with its "lr"."""
        self.members: list[tuple[Tensor, list[Tensor]]] = []
        sliced = []
        for group in groups:
            pairs = [(tensor, list(tensor.detach().unbind())) for tensor in group["params"]]
            self.members += pairs
            sliced.append({**group, "params": [view for _, views in pairs for view in views]})
        self.adam = torch.optim.Adam(sliced, fused=True)

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for tensor, views in self.members:
            for each in (tensor, *views):
                each.grad = None

    def step(self) -> None:
        """Move every tensor along its gradient; one without a gradient stays."""
        for tensor, views in self.members:
            if tensor.grad is not None:
                for view, gradient in zip(views, tensor.grad.unbind(), strict=True):
                    view.grad = gradient
        self.adam.step()
