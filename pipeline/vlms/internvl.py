"""InternVL-3.5: an InternViT tower whose tokens are merged by pixel shuffle, a Qwen3 language model."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import Tensor

from pipeline.errors import AssayError
from pipeline.vlms.adapter import TransformersVlm, stacked
from pipeline.vlms.loading import load_parts


class InternVL(TransformersVlm):
    """InternVL of transformers with one tile: the whole image, resized to the tower's square."""

    name = "internvl"

    @property
    def token_side(self) -> int:
        """Pixels a side of the patches that pixel shuffle merges into one visual token."""
        side = self.config.vision_config.patch_size
        first = side[0] if isinstance(side, list | tuple) else side
        return round(int(first) / float(self.config.downsample_ratio))

    def image_settings(self) -> dict[str, Any]:
        """One tile: footprints of several tiles and a thumbnail would overlap."""
        return {"crop_to_patches": False}

    def to_canvas(self, values: Any) -> np.ndarray[Any, Any]:
        """Return (height, width, 3) from the pixel values (1, 3, height, width) of the one tile."""
        pixels = values["pixel_values"]
        if len(pixels) != 1:
            raise AssayError(f"{self.name}: the processor made {len(pixels)} tiles of one image, not one")
        return pixels[0].permute(1, 2, 0).numpy()  # type: ignore[no-any-return]

    def encode(self, values: Any) -> Tensor:
        """Return the shuffled, projected features (B, m, d)."""
        module: Any = self.module
        pixels = self._tensor(values["pixel_values"])
        return stacked(module.model.get_image_features(pixel_values=pixels).pooler_output)


def load(
    *, weights: Mapping[str, Any], attention: str = "eager", dtype: str = "float32", device: str = "cpu"
) -> InternVL:
    """Load InternVL-3.5 (its `-HF` form) from a folder or the hub; see `loading.load_parts`."""
    from transformers import InternVLForConditionalGeneration, InternVLProcessor

    module, processor = load_parts(
        InternVLForConditionalGeneration,
        InternVLProcessor,
        weights=weights,
        attention=attention,
        dtype=dtype,
        device=device,
    )
    return InternVL(module, processor, attention=attention)
