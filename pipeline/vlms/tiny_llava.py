"""A small LLaVA, trained here on rendered shapes: architecture, words and preprocessing."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from pipeline.errors import AssayError
from pipeline.files import read_json, replacing, write_json
from pipeline.models.device import choose
from pipeline.models.weights import State, read
from pipeline.vlms.adapter import stacked
from pipeline.vlms.loading import DTYPES, check_numerics
from pipeline.vlms.prepared import Ints, Prepared, grid_footprints
from pipeline.vlms.vlm import Vlm
from pipeline.vlms.words import ASSISTANT, BEGIN, COLON, END, IMAGE, PAD, USER, Words, pieces

WEIGHTS, FACTS = "model.safetensors", "tiny_llava.json"
MEAN, DEVIATION = 0.46, 0.3
SPREAD = 0.04
"""Standard deviation of the language model's first weights; .02 learns more slowly."""


@dataclass(frozen=True)
class TinyShape:
    """What is built: square images of `side` pixels in patches of `patch`, `width` channels throughout."""

    words: tuple[str, ...]
    side: int = 64
    patch: int = 16
    width: int = 64
    vision_layers: int = 1
    text_layers: int = 2
    heads: int = 4

    def __post_init__(self) -> None:
        if self.side % self.patch or self.width % self.heads:
            raise AssayError(
                f"tiny_llava: side={self.side} must be a multiple of patch={self.patch}, and "
                f"width={self.width} of heads={self.heads}"
            )

    @property
    def n_patches(self) -> int:
        """m, the number of patches."""
        return (self.side // self.patch) ** 2


def build(shape: TinyShape, attention: str) -> Any:
    """Return transformers' LLaVA of this shape with new weights."""
    from transformers import CLIPVisionConfig, LlamaConfig, LlavaConfig, LlavaForConditionalGeneration

    sizes: dict[str, Any] = {
        "hidden_size": shape.width,
        "intermediate_size": 2 * shape.width,
        "num_attention_heads": shape.heads,
    }
    vision = CLIPVisionConfig(
        **sizes,
        num_hidden_layers=shape.vision_layers,
        image_size=shape.side,
        patch_size=shape.patch,
        projection_dim=shape.width,
    )
    text = LlamaConfig(
        **sizes,
        num_hidden_layers=shape.text_layers,
        num_key_value_heads=shape.heads,
        vocab_size=len(Words(shape.words)),
        max_position_embeddings=256,
        pad_token_id=PAD,
        bos_token_id=BEGIN,
        eos_token_id=END,
        initializer_range=SPREAD,
    )
    config = LlavaConfig(  # type: ignore[call-arg]
        vision_config=vision,
        text_config=text,
        image_token_id=IMAGE,
        image_seq_length=shape.n_patches,
        vision_feature_layer=-1,
        vision_feature_select_strategy="default",
    )
    config._attn_implementation = attention
    return LlavaForConditionalGeneration(config)


def normalised(images: np.ndarray[Any, Any]) -> Tensor:
    """Return (B, 3, H, W) float32 of grey levels (B, H, W, 3) uint8."""
    levels = torch.from_numpy(np.ascontiguousarray(images)).permute(0, 3, 1, 2).float()
    return (levels / 255 - MEAN) / DEVIATION


def prompt_start(n_patches: int) -> list[int]:
    """Return the ids before a question: begin, user, and a placeholder a patch."""
    return [BEGIN, USER, COLON, *[IMAGE] * n_patches]


ANSWER_CUE = [ASSISTANT, COLON]


class TinyLlava(Vlm):
    """The small LLaVA with its words; a question's tokens are its words and marks."""

    name = "tiny_llava"

    def __init__(self, module: nn.Module, shape: TinyShape, *, attention: str) -> None:
        super().__init__(module, attention=attention, pad_id=PAD, end_ids={END})
        self.shape, self.words = shape, Words(shape.words)

    @property
    def decoder_layers(self) -> list[nn.Module]:
        """The language model's layers, first to last."""
        module: Any = self.module
        return list(module.model.language_model.layers)

    def text(self, ids: Ints) -> str:
        """Return the words of token ids (k,)."""
        return self.words.decode(ids.tolist())

    def prepare(self, image: Image.Image, question: str) -> Prepared:
        """Return the prompt that asks `question` about `image`, which is resized to the model's square.

        Raises AssayError for an empty question, an unknown word, and an image smaller than a patch.
        """
        shape, side = self.shape, self.shape.side // self.shape.patch
        if min(image.size) < shape.patch:
            raise AssayError(
                f"tiny_llava: an image of {image.size[0]} x {image.size[1]} pixels is smaller than one patch "
                f"of {shape.patch} x {shape.patch}; use a larger image"
            )
        start, asked = prompt_start(shape.n_patches), self.words.encode(question)
        ids = np.array([*start, *asked, *ANSWER_CUE], dtype=np.int64)
        return Prepared(
            question=question.strip(),
            canvas=image.convert("RGB").resize((shape.side, shape.side), Image.Resampling.BICUBIC),
            footprints=grid_footprints(side, side, shape.patch),
            grid=(side, side),
            input_ids=ids,
            image_positions=np.flatnonzero(ids == IMAGE),
            query_positions=np.arange(len(start), len(start) + len(asked)),
            tokens=tuple(pieces(question)),
        )

    def image_features(self, canvases: Sequence[Image.Image], prepared: Prepared) -> Tensor:
        """Return the projected visual tokens (B, m, d)."""
        module: Any = self.module
        pixels = normalised(np.stack([np.asarray(canvas) for canvas in canvases]))
        return stacked(module.model.get_image_features(pixels.to(self.device, module.dtype)).pooler_output)


def save(folder: Path, shape: TinyShape, state: State) -> None:
    """Write the weights as safetensors and the shape as JSON into `folder`, atomically each."""
    from safetensors.torch import save_file

    tensors = {name: value.detach().cpu().contiguous() for name, value in state.items()}
    with replacing(folder / WEIGHTS) as temporary:
        save_file(tensors, temporary)
    write_json(folder / FACTS, asdict(shape))


def load(
    *, weights: Mapping[str, Any], attention: str = "eager", dtype: str = "float32", device: str = "cpu"
) -> TinyLlava:
    """Load what `save` wrote; `weights` is {"source": "folder", "path": ...}.

    Raises AssayError where a file is missing, and where tensors are missing, unknown or of another shape.
    """
    check_numerics(attention, dtype)
    if weights.get("source") != "folder":
        raise AssayError(f"vlm.weights.source={weights.get('source')!r}: tiny_llava is read from a folder")
    folder = Path(weights["path"])
    if missing := [name for name in (WEIGHTS, FACTS) if not (folder / name).is_file()]:
        raise AssayError(f"{folder} holds no {missing[0]}; train tiny_llava (stage vlm) or give its folder")
    facts = read_json(folder / FACTS)
    try:
        shape = TinyShape(**facts | {"words": tuple(facts["words"])})
        module = build(shape, attention)
        module.load_state_dict(read(folder / WEIGHTS))
    except (TypeError, KeyError, RuntimeError) as error:
        raise AssayError(f"{folder} is no trained tiny_llava ({str(error)[:300]}); train it again") from error
    return TinyLlava(module.to(choose(device), DTYPES[dtype]), shape, attention=attention)
