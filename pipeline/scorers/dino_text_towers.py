"""The modules of dino.txt beside its image network, named as the tensors of the released file.

Source: Jose et al., "DINOv2 Meets Text", CVPR 2025 (arXiv 2412.16334). The release for DINOv3 has two head
blocks of width 1024, 24 text blocks of width 1280, 77 positions and 2,048 dimensions.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention, silu

HEAD_WIDTH = 64
"""The width of an attention head in every DINOv3 network and in dino.txt's text encoder."""


@dataclass(frozen=True)
class Sizes:
    """What the shapes of the released file say; widths, then numbers of blocks, words and positions."""

    image_width: int
    image_hidden: int
    image_blocks: int
    text_width: int
    text_hidden: int
    text_blocks: int
    n_words: int
    context_length: int
    n_dimensions: int


class SelfAttention(nn.Module):
    """Attention with heads of width 64 and no bias before the softmax."""

    def __init__(self, width: int, *, causal: bool) -> None:
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.proj = nn.Linear(width, width)
        self.causal = causal

    def forward(self, tokens: Tensor) -> Tensor:
        """Map (B, T, W) to (B, T, W)."""
        split = self.qkv(tokens).unflatten(-1, (3, -1, HEAD_WIDTH))
        q, k, v = split.permute(2, 0, 3, 1, 4)
        mixed = scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.proj(mixed.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]


class GatedLayers(nn.Module):
    """SwiGLU: silu(w1 x) times w2 x, through w3."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.w1 = nn.Linear(width, hidden)
        self.w2 = nn.Linear(width, hidden)
        self.w3 = nn.Linear(hidden, width)

    def forward(self, tokens: Tensor) -> Tensor:
        """Map (B, T, W) to (B, T, W)."""
        return self.w3(silu(self.w1(tokens)) * self.w2(tokens))  # type: ignore[no-any-return]


class Scale(nn.Module):
    """One factor for each of W features."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(width))

    def forward(self, tokens: Tensor) -> Tensor:
        """Map (B, T, W) to (B, T, W)."""
        return tokens * self.gamma


class HeadBlock(nn.Module):
    """A block on image tokens; they carry their positions already."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attn = SelfAttention(width, causal=False)
        self.ls1 = Scale(width)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = GatedLayers(width, hidden)
        self.ls2 = Scale(width)

    def forward(self, tokens: Tensor) -> Tensor:
        """Map (B, T, W) to (B, T, W)."""
        tokens = tokens + self.ls1(self.attn(self.norm1(tokens)))
        return tokens + self.ls2(self.mlp(self.norm2(tokens)))  # type: ignore[no-any-return]


class VisionHead(nn.Module):
    """The trained blocks over the frozen image network's tokens."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        width, hidden = sizes.image_width, sizes.image_hidden
        self.blocks = nn.ModuleList(HeadBlock(width, hidden) for _ in range(sizes.image_blocks))
        self.ln_final = nn.LayerNorm(width)

    def forward(self, tokens: Tensor) -> Tensor:
        """Map (B, T, W) to (B, T, W)."""
        for block in self.blocks:
            tokens = block(tokens)
        return self.ln_final(tokens)  # type: ignore[no-any-return]


class PlainLayers(nn.Module):
    """Two layers with a GELU between."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(width, hidden)
        self.act = nn.GELU()
        self.fc2 = nn.Linear(hidden, width)

    def forward(self, tokens: Tensor) -> Tensor:
        """Map (B, T, W) to (B, T, W)."""
        return self.fc2(self.act(self.fc1(tokens)))  # type: ignore[no-any-return]


class TextBlock(nn.Module):
    """A block on text tokens, each of which sees those before it."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = SelfAttention(width, causal=True)
        self.ffn_norm = nn.LayerNorm(width)
        self.feed_forward = PlainLayers(width, hidden)

    def forward(self, tokens: Tensor) -> Tensor:
        """Map (B, T, W) to (B, T, W)."""
        tokens = tokens + self.attention(self.attention_norm(tokens))
        return tokens + self.feed_forward(self.ffn_norm(tokens))  # type: ignore[no-any-return]


class TextEncoder(nn.Module):
    """A transformer over CLIP's byte-pair tokens."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        width, hidden = sizes.text_width, sizes.text_hidden
        self.token_embedding = nn.Embedding(sizes.n_words, width)
        self.positional_embedding = nn.Parameter(torch.zeros(sizes.context_length, width))
        self.blocks = nn.ModuleList(TextBlock(width, hidden) for _ in range(sizes.text_blocks))
        self.ln_final = nn.LayerNorm(width)

    def forward(self, numbers: Tensor) -> Tensor:
        """Map token numbers (T, L) to (T, W): the state at the end-of-text token, the largest number.

        No token sees those after it, so what follows the longest text of the batch is left out.
        """
        ends = numbers.argmax(dim=-1)
        length = int(ends.max()) + 1
        tokens = self.token_embedding(numbers[:, :length]) + self.positional_embedding[:length]
        for block in self.blocks:
            tokens = block(tokens)
        rows = torch.arange(len(numbers), device=numbers.device)
        return self.ln_final(tokens[rows, ends])  # type: ignore[no-any-return]


class TextHeads(nn.Module):
    """All that the released file beside the image network's holds, under its names.

    `logit_scale` is the temperature of training; probabilities here come from the scorer's calibration.
    """

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes
        projection = nn.Linear(sizes.text_width, sizes.n_dimensions, bias=False)
        head = nn.ModuleDict({"linear_projection": projection})
        self.visual_model = nn.ModuleDict({"head": VisionHead(sizes)})
        self.text_model = nn.ModuleDict({"backbone": TextEncoder(sizes), "head": head})
        self.logit_scale = nn.Parameter(torch.zeros(1))


class DinoText(nn.Module):
    """The image network and the text heads: images and texts in one space of 2 W dimensions."""

    def __init__(self, network: nn.Module, heads: TextHeads) -> None:
        super().__init__()
        self.network = network
        self.heads = heads

    def encode_image(self, images: Tensor) -> Tensor:
        """Map (B, 3, H, W) to (B, d): the class token, then the mean of the patch tokens."""
        network: Any = self.network
        tokens = self.heads.visual_model["head"](network.forward_features(images))
        return torch.cat([tokens[:, 0], tokens[:, network.num_prefix_tokens :].mean(dim=1)], dim=1)

    def encode_text(self, numbers: Tensor) -> Tensor:
        """Map token numbers (T, L) to (T, d)."""
        text: Any = self.heads.text_model
        return text["head"]["linear_projection"](text["backbone"](numbers))  # type: ignore[no-any-return]
