"""The models' own forward passes, one state at a time, without the code under test."""

from typing import Any

import numpy as np
import torch
from PIL import Image, ImageFilter

from pipeline.vlms.prepared import Prepared
from pipeline.vlms.tiny_llava import TinyLlava
from pipeline.vlms.vlm import Vlm


def own_inputs(vlm: Any, image: Image.Image, ids: list[int]) -> dict[str, torch.Tensor]:
    """Return the arguments of the model's own forward pass for an image and prompt ids."""
    given = torch.tensor([ids])
    if isinstance(vlm, TinyLlava):
        levels = np.asarray(image, dtype=np.float64).transpose(2, 0, 1)[None] / 255
        return {"input_ids": given, "pixel_values": torch.tensor((levels - 0.46) / 0.3, dtype=torch.float32)}
    tiles = {"crop_to_patches": False} if vlm.name == "internvl" else {}
    made = vlm.processor.image_processor(images=[image], return_tensors="pt", **tiles)
    inputs = {"input_ids": given, "pixel_values": made["pixel_values"]}
    if vlm.name == "qwen2_5_vl":
        kinds = (given == vlm.config.image_token_id).int()
        inputs |= {"image_grid_thw": made["image_grid_thw"], "mm_token_type_ids": kinds}
    return inputs


def own_logits(vlm: Vlm, image: Image.Image, ids: list[int]) -> torch.Tensor:
    """Return the logits (L, V) of the model's own forward pass."""
    inputs = own_inputs(vlm, image, ids)
    with torch.no_grad():
        out = vlm.module(**inputs, attention_mask=torch.ones_like(inputs["input_ids"]))
    return out.logits[0].double()


def slow_value(vlm: Vlm, prepared: Prepared, answer: list[int], patches: Any, tokens: Any) -> float:
    """Return f of one state, the answer's tokens one after the other."""
    canvas = prepared.canvas.filter(ImageFilter.GaussianBlur(30))
    for kept, box in zip(patches, prepared.footprints.tolist(), strict=True):
        if kept:
            canvas.paste(prepared.canvas.crop(box), box)
    ids = prepared.input_ids.tolist()
    for kept, position in zip(tokens, prepared.query_positions.tolist(), strict=True):
        if not kept:
            ids[position] = vlm.pad_id
    value = 1.0
    for i, token in enumerate(answer):
        value *= float(own_logits(vlm, canvas, ids + answer[:i])[-1].softmax(-1)[token])
    return value
