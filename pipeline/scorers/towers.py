"""The two trained towers of the small scorer."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from pipeline.scorers.ngrams import Vocabulary

FEATURE_DROPOUT = 0.3
HIDDEN_DROPOUT = 0.1
SPREAD = 0.05


class ImageTower(nn.Module):
    """From frozen features (B, F) to embeddings (B, d) of length 1."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, mean: Tensor, deviation: Tensor, width: int) -> None:
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("deviation", deviation)
        self.layers = nn.Sequential(
            nn.Dropout(FEATURE_DROPOUT),
            nn.Linear(len(mean), width),
            nn.GELU(),
            nn.Dropout(HIDDEN_DROPOUT),
            nn.Linear(width, width),
        )

    def forward(self, features: Tensor) -> Tensor:
        """Map (B, F) to (B, d)."""
        return normalize(self.layers((features - self.mean) / self.deviation), dim=-1)


class TextTower(nn.Module):
    """From token numbers to embeddings (T, d) of length 1: mean, then one residual block."""

    def __init__(self, n_tokens: int, width: int) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(n_tokens, width, mode="mean")
        nn.init.normal_(self.bag.weight, std=SPREAD)
        self.block = nn.Sequential(
            nn.LayerNorm(width),
            nn.Linear(width, width),
            nn.GELU(),
            nn.Dropout(HIDDEN_DROPOUT),
            nn.Linear(width, width),
        )

    def forward(self, texts: Sequence[Sequence[int]]) -> Tensor:
        """Map T lists of token numbers, none empty, to (T, d)."""
        lengths = torch.tensor([0, *(len(text) for text in texts)])
        numbers = torch.tensor([number for text in texts for number in text])
        mixed = self.bag(numbers, lengths.cumsum(0)[:-1])
        return normalize(mixed + self.block(mixed), dim=-1)


@dataclass(frozen=True)
class Trained:
    """The trained towers in evaluation mode, and the tokens that the text tower knows.

    `loss` is the training loss of the last batch; NaN for a scorer read from a file.
    """

    image_tower: ImageTower
    text_tower: TextTower
    vocabulary: Vocabulary
    loss: float = float("nan")
