"""Tiny vision-language models of random weights whose visual tokens are projected patch means."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from pipeline.vlms.prepared import Ints, Prepared, grid_footprints
from pipeline.vlms.vlm import Answer, Vlm

VOCABULARY, WIDTH, IMAGE_ID, GRID, SIDE = 24, 16, 4, (3, 4), 8
QUERY = (8, 9, 10, 11, 12)
TEXT: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": WIDTH,
    "intermediate_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "initializer_range": 0.3,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 3,
}


class PatchVlm(Vlm):
    """A model of transformers, its image tower replaced by a fixed projection of each patch's mean colour."""

    def __init__(self, name: str, module: nn.Module, attention: str) -> None:
        super().__init__(module, attention=attention, pad_id=0, end_ids=())
        self.name = name
        self.projection = torch.randn(3, WIDTH, generator=torch.Generator().manual_seed(1))

    def prepare(self, image: Image.Image, question: str) -> Prepared:
        m = GRID[0] * GRID[1]
        ids = np.array([2, 5, *[IMAGE_ID] * m, *QUERY, 13, 14])
        return Prepared(
            question=question,
            canvas=image,
            footprints=grid_footprints(*GRID, SIDE),
            grid=GRID,
            input_ids=ids,
            image_positions=np.arange(2, 2 + m),
            query_positions=np.arange(2 + m, 2 + m + len(QUERY)),
            tokens=tuple(map(str, QUERY)),
        )

    def image_features(self, canvases: Sequence[Image.Image], prepared: Prepared) -> Tensor:
        pixels = torch.stack([torch.from_numpy(np.array(each)).double() / 255 for each in canvases])
        patches = pixels.reshape(len(canvases), GRID[0], SIDE, GRID[1], SIDE, 3).mean((2, 4)).flatten(1, 2)
        return patches.to(self.projection) @ self.projection

    def position_ids(self, prepared: Prepared, n_rows: int, length: int) -> Tensor | None:
        return torch.arange(length).expand(n_rows, -1) if self.name != "qwen" else None

    def text(self, ids: Ints) -> str:
        return " ".join(map(str, ids))

    @property
    def decoder_layers(self) -> list[nn.Module]:
        module: Any = self.module
        return list(module.model.language_model.layers)


def _llava(n_layers: int) -> nn.Module:
    from transformers import CLIPVisionConfig, LlamaConfig, LlavaConfig, LlavaForConditionalGeneration

    vision = CLIPVisionConfig(
        hidden_size=8,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
        image_size=16,
        patch_size=8,
    )
    text = LlamaConfig(**TEXT | {"num_hidden_layers": n_layers})
    return LlavaForConditionalGeneration(
        LlavaConfig(vision_config=vision, text_config=text, image_token_id=IMAGE_ID)
    )


def _qwen(n_layers: int) -> nn.Module:
    from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

    vision = {"depth": 1, "hidden_size": 8, "intermediate_size": 8, "num_heads": 1, "out_hidden_size": WIDTH}
    rope = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [1, 1, 0]}
    text = TEXT | {"num_hidden_layers": n_layers, "rope_parameters": rope}
    config = Qwen2_5_VLConfig(text_config=text, vision_config=vision, image_token_id=IMAGE_ID)
    return Qwen2_5_VLForConditionalGeneration(config)


def _internvl(n_layers: int) -> nn.Module:
    from transformers import (
        InternVLConfig,
        InternVLForConditionalGeneration,
        InternVLVisionConfig,
        Qwen3Config,
    )

    vision = InternVLVisionConfig(
        hidden_size=8,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
        image_size=16,
        patch_size=8,
    )
    text = Qwen3Config(**TEXT | {"num_hidden_layers": n_layers, "head_dim": 4})
    return InternVLForConditionalGeneration(
        InternVLConfig(vision_config=vision, text_config=text, image_token_id=IMAGE_ID)
    )


BUILDERS: dict[str, Callable[[int], nn.Module]] = {"llava": _llava, "qwen": _qwen, "internvl": _internvl}


@cache
def vlm(name: str = "llava", attention: str = "eager", n_layers: int = 3) -> PatchVlm:
    """Return the tiny model in float64; the same weights at every call."""
    with torch.random.fork_rng():
        torch.manual_seed(5)
        module = BUILDERS[name](n_layers).double()
    for part in module.modules():
        # Norms of weight 1 and biases of 0 would hide mistakes.
        if type(part).__name__.endswith("RMSNorm"):
            part.weight.data.uniform_(0.5, 1.5, generator=torch.Generator().manual_seed(2))
    module.set_attn_implementation(attention)
    return PatchVlm(name, module, attention)


def prepared(seed: int = 0) -> Prepared:
    """Return a question about an image of random patches."""
    colours = np.random.default_rng(seed).integers(0, 256, (*GRID, 3), dtype=np.uint8)
    canvas = Image.fromarray(colours.repeat(SIDE, axis=0).repeat(SIDE, axis=1))
    return vlm().prepare(canvas, "is there a red circle")


def answer(*ids: int) -> Answer:
    """Return an answer of given tokens."""
    return Answer(np.array(ids, dtype=np.int64), "", 0.0)
