"""LLaVA-1.5: a CLIP image tower, a two-layer projector, a Llama language model (Liu et al., 2024)."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import Tensor

from pipeline.vlms.adapter import TransformersVlm, stacked
from pipeline.vlms.loading import load_parts


class Llava(TransformersVlm):
    """LLaVA of transformers: one square canvas, one visual token a patch of the image tower."""

    name = "llava"

    @property
    def token_side(self) -> int:
        """Pixels a side of a patch of the image tower."""
        return int(self.config.vision_config.patch_size)

    def image_settings(self) -> dict[str, Any]:
        """Nothing beside the processor's own settings."""
        return {}

    def to_canvas(self, values: Any) -> np.ndarray[Any, Any]:
        """Return (height, width, 3) from pixel values (1, 3, height, width)."""
        return values["pixel_values"][0].permute(1, 2, 0).numpy()  # type: ignore[no-any-return]

    def encode(self, values: Any) -> Tensor:
        """Return the projected features (B, m, d) of the layer that the config names."""
        module: Any = self.module
        pixels = self._tensor(values["pixel_values"])
        return stacked(module.model.get_image_features(pixel_values=pixels).pooler_output)


def load(
    *, weights: Mapping[str, Any], attention: str = "eager", dtype: str = "float32", device: str = "cpu"
) -> Llava:
    """Load LLaVA-1.5 from a folder or the hub; see `loading.load_parts` for `weights` and errors."""
    from transformers import LlavaForConditionalGeneration, LlavaProcessor

    module, processor = load_parts(
        LlavaForConditionalGeneration,
        LlavaProcessor,
        weights=weights,
        attention=attention,
        dtype=dtype,
        device=device,
    )
    return Llava(module, processor, attention=attention)
