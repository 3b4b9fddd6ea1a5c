"""Small models of three architectures, saved as a hub repository is, and loaded by the real code."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from pipeline.models.weights import seeded
from pipeline.seeds import generator
from pipeline.vlms import internvl, llava, qwen2_5_vl, tiny_llava
from pipeline.vlms.vlm import Vlm

QUESTION = "Is there a red circle left of the blue square?"
CORPUS = [QUESTION, "user assistant system You are a helpful assistant.", "What is it? (A) yes (B) no naïve"]
NAMES = ("llava", "qwen2_5_vl", "internvl", "tiny_llava")
WORDS = ("is", "there", "a", "red", "blue", "circle", "square", "?", "yes", "no")
SIDE = 56
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{% for c in m['content'] %}"
    "{% if c['type'] == 'image' %}IMAGE{% else %}{{ c['text'] }}{% endif %}{% endfor %}<|im_end|>\n"
    "{% endfor %}<|im_start|>assistant\n"
)
LLAVA_TEMPLATE = (
    "{% for m in messages %}USER: {% for c in m['content'] %}{% if c['type'] == 'image' %}<image>\n"
    "{% else %}{{ c['text'] }}{% endif %}{% endfor %} {% endfor %}ASSISTANT:"
)
TEXT: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 512,
    "initializer_range": 0.2,
}


def tokenizer(special: list[str], **named: str) -> PreTrainedTokenizerFast:
    """Byte-level pairs learnt from a few sentences, with the special tokens that the model knows."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=340, initial_alphabet=alphabet, special_tokens=special)
    made.train_from_iterator(CORPUS, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", eos_token="<end>", extra_special_tokens=named or None
    )


def _text_config(tokens: PreTrainedTokenizerFast) -> dict[str, Any]:
    return TEXT | {
        "vocab_size": len(tokens),
        "pad_token_id": tokens.pad_token_id,
        "eos_token_id": tokens.eos_token_id,
    }


def _save(folder: Path, module: Any, processor: Any) -> None:
    module.save_pretrained(folder)
    processor.save_pretrained(folder)


def save_llava(folder: Path) -> None:
    """Write a small LLaVA: 4 x 4 visual tokens of 14 pixels."""
    from transformers import (
        CLIPImageProcessor,
        CLIPVisionConfig,
        LlamaConfig,
        LlavaConfig,
        LlavaForConditionalGeneration,
        LlavaProcessor,
    )

    tokens = tokenizer(["<pad>", "<end>", "<image>"])
    vision = CLIPVisionConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        image_size=SIDE,
        patch_size=14,
        projection_dim=32,
    )
    config = LlavaConfig(
        vision_config=vision,
        text_config=LlamaConfig(**_text_config(tokens)),
        image_token_id=tokens.convert_tokens_to_ids("<image>"),
        image_seq_length=16,
        vision_feature_layer=-2,
    )
    images = CLIPImageProcessor(size={"shortest_edge": SIDE}, crop_size={"height": SIDE, "width": SIDE})
    processor = LlavaProcessor(
        image_processor=images,
        tokenizer=tokens,
        patch_size=14,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=LLAVA_TEMPLATE,
    )
    _save(folder, LlavaForConditionalGeneration(config), processor)


def save_qwen2_5_vl(folder: Path) -> None:
    """Write a small Qwen2.5-VL: visual tokens of 28 pixels, windows of two, positions in three parts."""
    from transformers import (
        Qwen2_5_VLConfig,
        Qwen2_5_VLForConditionalGeneration,
        Qwen2_5_VLProcessor,
        Qwen2VLImageProcessor,
        Qwen2VLVideoProcessor,
    )

    special = ["<|image_pad|>", "<|video_pad|>", "<|vision_start|>", "<|vision_end|>"]
    tokens = tokenizer(["<pad>", "<end>", "<|im_start|>", "<|im_end|>", *special])
    ids = [tokens.convert_tokens_to_ids(each) for each in special]
    rope = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [1, 1, 2]}
    config = Qwen2_5_VLConfig(
        text_config=_text_config(tokens) | {"num_key_value_heads": 2, "rope_parameters": rope},
        vision_config={
            "depth": 2,
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_heads": 4,
            "patch_size": 14,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            "out_hidden_size": 32,
            "window_size": 56,
            "fullatt_block_indexes": [1],
        },
        image_token_id=ids[0],
        video_token_id=ids[1],
        vision_start_token_id=ids[2],
        vision_end_token_id=ids[3],
    )
    images = Qwen2VLImageProcessor(size={"shortest_edge": 56 * 56, "longest_edge": 28 * 28 * 20})
    template = CHATML.replace("IMAGE", "<|vision_start|><|image_pad|><|vision_end|>")
    processor = Qwen2_5_VLProcessor(
        image_processor=images,
        tokenizer=tokens,
        video_processor=Qwen2VLVideoProcessor(),
        chat_template=template,
    )
    _save(folder, Qwen2_5_VLForConditionalGeneration(config), processor)


def save_internvl(folder: Path) -> None:
    """Write a small InternVL: 2 x 2 visual tokens of 28 pixels."""
    from transformers import (
        GotOcr2ImageProcessor,
        InternVLConfig,
        InternVLForConditionalGeneration,
        InternVLProcessor,
        InternVLVideoProcessor,
    )

    named = {
        "start_image_token": "<img>",
        "end_image_token": "</img>",
        "context_image_token": "<IMG_CONTEXT>",
        "video_token": "<video>",
    }
    tokens = tokenizer(["<pad>", "<end>", "<|im_start|>", "<|im_end|>", *named.values()], **named)
    config = InternVLConfig(
        vision_config={
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "image_size": [SIDE, SIDE],
            "patch_size": [14, 14],
        },
        text_config=_text_config(tokens) | {"model_type": "qwen3", "num_key_value_heads": 2, "head_dim": 8},
        image_token_id=tokens.convert_tokens_to_ids("<IMG_CONTEXT>"),
        image_seq_length=4,
        downsample_ratio=0.5,
    )
    processor = InternVLProcessor(
        image_processor=GotOcr2ImageProcessor(
            size={"height": SIDE, "width": SIDE}, crop_to_patches=True, max_patches=6
        ),
        tokenizer=tokens,
        video_processor=InternVLVideoProcessor(),
        image_seq_length=4,
        chat_template=CHATML.replace("IMAGE", "<IMG_CONTEXT>\n"),
    )
    _save(folder, InternVLForConditionalGeneration(config), processor)


def save_tiny_llava(folder: Path) -> None:
    """Write an untrained tiny_llava with attention that differs between tokens."""
    shape = tiny_llava.TinyShape(words=WORDS, width=32)
    module = tiny_llava.build(shape, "eager")
    for weight in module.parameters():
        if weight.ndim == 2:
            torch.nn.init.normal_(weight, std=0.2)
    tiny_llava.save(folder, shape, module.state_dict())


SAVERS: dict[str, Callable[[Path], None]] = {
    "llava": save_llava,
    "qwen2_5_vl": save_qwen2_5_vl,
    "internvl": save_internvl,
    "tiny_llava": save_tiny_llava,
}
LOADERS: dict[str, Callable[..., Vlm]] = {
    "llava": llava.load,
    "qwen2_5_vl": qwen2_5_vl.load,
    "internvl": internvl.load,
    "tiny_llava": tiny_llava.load,
}


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of the four saved models."""
    places = {name: tmp_path_factory.mktemp(name) for name in NAMES}
    with seeded(3):
        for name, place in places.items():
            SAVERS[name](place)
    return places


@pytest.fixture(scope="session")
def vlms(folders: dict[str, Path]) -> dict[str, Vlm]:
    """The four models, eager, from their folders."""
    return {name: LOADERS[name](weights={"source": "folder", "path": folders[name]}) for name in NAMES}


@pytest.fixture(params=NAMES)
def vlm(request: pytest.FixtureRequest, vlms: dict[str, Vlm]) -> Vlm:
    """Each of the four models in turn."""
    return vlms[request.param]


@pytest.fixture
def image() -> Image.Image:
    """A noisy image, wider than high."""
    pixels = generator(0, "tests", "vlms").integers(0, 256, (60, 90, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Small matrices are fastest on one thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
