"""What every model library returns."""

from dataclasses import dataclass

from torch import nn

from pipeline.models.images import Transform


@dataclass(frozen=True)
class Loaded:
    """A model in evaluation mode with the transform that its weights expect.

    `input_size` is the side of the square input in pixels; `n_prefix_tokens` counts the tokens
    (class, distillation, registers) before the patch tokens.
    """

    module: nn.Module
    transform: Transform
    input_size: int
    n_prefix_tokens: int
