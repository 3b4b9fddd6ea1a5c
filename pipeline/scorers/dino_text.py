"""DINOv3 with its text head (dino.txt) as a scorer, from the two released files.

The image network is timm's DINOv3; the head and the text encoder are `dino_text_towers`. Sources: Siméoni et
al., "DINOv3", arXiv 2508.10104; Jose et al., "DINOv2 Meets Text", arXiv 2412.16334; names of tensors, sizes
and preprocessing are those of the authors' release (github.com/facebookresearch/dinov3).
"""

from collections.abc import Mapping
from typing import Any

import torch
from open_clip.tokenizer import SimpleTokenizer
from timm.data.constants import IMAGENET_DEFAULT_MEAN, IMAGENET_DEFAULT_STD
from torchvision.transforms import v2

from pipeline.errors import AssayError
from pipeline.models.images import Transform
from pipeline.scorers.dino_text_towers import DinoText
from pipeline.scorers.dino_text_weights import load_heads, load_network
from pipeline.scorers.dual_encoder import DualEncoder, check_template

RESIZE = 256 / 224


def load(
    *,
    arch: str,
    weights: Mapping[str, Any],
    text_weights: Mapping[str, Any],
    input_size: int,
    template: str,
) -> DualEncoder:
    """Load timm's DINOv3 `arch` from `weights`, and dino.txt's head and text encoder from `text_weights`.

    Both are settings with source "file": of the release, dinov3_vitl16_pretrain_lvd1689m-8aa4cbdd.pth (arch
    vit_large_patch16_dinov3) and dinov3_vitl16_dinotxt_vision_head_and_text_encoder-a442d8f5.pth. Embeddings
    have 2 W dimensions for a network of width W. `input_size` is the side of the square input in pixels, 224
    in the release. Raises AssayError for another architecture, a size that is no multiple of the patches', a
    template without {}, and files whose tensors are not those of the model, with their names.
    """
    check_template(template)
    network = load_network(arch, weights)
    patch = int(network.patch_embed.patch_size[0])
    if input_size % patch:
        raise AssayError(f"scorer.input_size={input_size} is not a multiple of {patch}, the side of a patch")
    heads = load_heads(text_weights, int(network.embed_dim))
    tokenizer = SimpleTokenizer(context_length=heads.sizes.context_length)
    if tokenizer.vocab_size != heads.sizes.n_words:
        raise AssayError(
            f"scorer.text_weights: the text encoder knows {heads.sizes.n_words} tokens, and CLIP's "
            f"byte-pair vocabulary has {tokenizer.vocab_size}"
        )
    model = DinoText(network, heads).eval()
    return DualEncoder(model, transform(input_size), tokenizer, template, heads.sizes.n_dimensions)


def transform(input_size: int) -> Transform:
    """Return the release's evaluation transform: shorter side to 8/7 of the input, bicubic, centre crop."""
    steps: Transform = v2.Compose(
        [
            v2.ToImage(),
            v2.Resize(int(RESIZE * input_size), interpolation=v2.InterpolationMode.BICUBIC, antialias=True),
            v2.CenterCrop(input_size),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(IMAGENET_DEFAULT_MEAN, IMAGENET_DEFAULT_STD),
        ]
    )
    return steps
