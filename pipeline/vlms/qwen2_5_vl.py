"""Qwen2.5-VL: an image tower of any size with merged tokens, a Qwen2.5 language model with 3-d positions."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pipeline.errors import AssayError
from pipeline.vlms.adapter import TransformersVlm, stacked
from pipeline.vlms.loading import load_parts
from pipeline.vlms.prepared import Prepared


class Qwen25VL(TransformersVlm):
    """Qwen2.5-VL of transformers: the canvas keeps the image's shape, in steps of one visual token."""

    name = "qwen2_5_vl"

    @property
    def token_side(self) -> int:
        """Pixels a side of the patches that the tower merges into one visual token."""
        vision = self.config.vision_config
        return int(vision.patch_size) * int(vision.spatial_merge_size)

    def image_settings(self) -> dict[str, Any]:
        """Nothing beside the processor's own settings."""
        return {}

    def to_canvas(self, values: Any) -> np.ndarray[Any, Any]:
        """Return (height, width, 3): the flattened patches put back into their places."""
        vision = self.config.vision_config
        side, merge, depth = vision.patch_size, vision.spatial_merge_size, vision.temporal_patch_size
        _, rows, columns = values["image_grid_thw"][0].tolist()
        flat: np.ndarray[Any, Any] = values["pixel_values"].numpy()
        if flat.shape != (rows * columns, 3 * depth * side * side):
            raise AssayError(
                f"{self.name}: patches {flat.shape} do not fit a grid of {rows} x {columns}; "
                "the processor's files do not fit the model's"
            )
        patches = flat.reshape(rows // merge, columns // merge, merge, merge, 3, depth, side, side)
        placed = patches[:, :, :, :, :, 0].transpose(0, 2, 5, 1, 3, 6, 4)
        return placed.reshape(rows * side, columns * side, 3)

    def encode(self, values: Any) -> Tensor:
        """Return the merged features (B, m, d)."""
        module: Any = self.module
        pixels = self._tensor(values["pixel_values"])
        grid = values["image_grid_thw"].to(self.device)
        return stacked(module.model.get_image_features(pixels, grid).pooler_output)

    def extra(self, made: Any) -> dict[str, Any]:
        """Return the grid of patches (1, 3), from which positions are counted."""
        return {"image_grid_thw": made["image_grid_thw"]}

    def position_ids(self, prepared: Prepared, n_rows: int, length: int) -> Tensor:
        """Return time, row and column (3, B, L): what the model itself counts from ids and grid."""
        kinds = torch.zeros((1, length), dtype=torch.int32)
        kinds[0, torch.from_numpy(prepared.image_positions)] = 1
        grid = prepared.extra["image_grid_thw"]
        module: Any = self.module
        positions, _ = module.model.get_rope_index(
            torch.zeros((1, length), dtype=torch.long), mm_token_type_ids=kinds, image_grid_thw=grid
        )
        told: Tensor = positions.to(self.device).expand(-1, n_rows, -1)
        return told


def load(
    *,
    weights: Mapping[str, Any],
    attention: str = "eager",
    dtype: str = "float32",
    device: str = "cpu",
    max_pixels: int | None = None,
) -> Qwen25VL:
    """Load Qwen2.5-VL from a folder or the hub; see `loading.load_parts` for `weights` and errors.

    `max_pixels` bounds the canvas, and so the number of visual tokens; None leaves the processor's bound.
    """
    from transformers import Qwen2_5_VLForConditionalGeneration, Qwen2_5_VLProcessor

    module, processor = load_parts(
        Qwen2_5_VLForConditionalGeneration,
        Qwen2_5_VLProcessor,
        weights=weights,
        attention=attention,
        dtype=dtype,
        device=device,
    )
    if max_pixels is not None:
        _bound(processor.image_processor, max_pixels)
    return Qwen25VL(module, processor, attention=attention)


def _bound(image_processor: Any, max_pixels: int) -> None:
    size = image_processor.size
    shortest = size["shortest_edge"]
    if max_pixels < shortest:
        raise AssayError(f"vlm.max_pixels={max_pixels} is below the processor's least, {shortest}; raise it")
    image_processor.size = type(size)(**{"shortest_edge": shortest, "longest_edge": max_pixels})
