"""A pretrained model with an image encoder and a text encoder that share one space."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
from torch import Tensor, nn

from pipeline.errors import AssayError
from pipeline.models.batch_size import BatchSize, Pieces, at_once
from pipeline.models.device import inference
from pipeline.models.images import Images, Transform, batches
from pipeline.scorers.scorer import Embeddings, Numerics, unit_rows


@dataclass(frozen=True)
class DualEncoder:
    """A model in evaluation mode with its transform, tokenizer and text template.

    `model` has `encode_image`, (B, 3, H, W) to (B, d), and `encode_text`, token numbers (T, L) to (T, d),
    of whatever length.
    """

    model: nn.Module
    transform: Transform
    tokenize: Callable[[list[str]], Tensor]
    template: str
    n_dimensions: int

    def embed_images(
        self,
        images: Images,
        *,
        batch_size: BatchSize,
        workers: int,
        device: str,
        progress: bool = False,
        **numerics: Unpack[Numerics],
    ) -> Embeddings:
        """Return (N, d) float32, each row of length 1."""
        blocks = []
        with inference(device, **numerics) as target:
            model: Any = self.model.to(target)
            label = "image embeddings" if progress else ""
            source = batches(
                images,
                self.transform,
                batch_size=at_once(batch_size),
                workers=workers,
                device=target,
                progress=label,
            )
            for _, found in Pieces(batch_size, device).through(source, model.encode_image):
                blocks.append(found.float().cpu().numpy())
        return unit_rows(np.concatenate(blocks), "image row")

    def embed_texts(
        self,
        texts: Sequence[str],
        *,
        batch_size: int = 256,
        device: str = "cpu",
        **numerics: Unpack[Numerics],
    ) -> Embeddings:
        """Return (T, d) float32, each row of length 1; `{}` in the template is the text."""
        filled = [self.template.replace("{}", text) for text in texts]
        if not filled:
            return np.empty((0, self.n_dimensions), dtype=np.float32)
        blocks = []
        with inference(device, **numerics) as target:
            model: Any = self.model.to(target)
            for start in range(0, len(filled), batch_size):
                numbers = self.tokenize(filled[start : start + batch_size]).to(target)
                blocks.append(model.encode_text(numbers).float().cpu().numpy())
        return unit_rows(np.concatenate(blocks), "text")


def check_template(template: str) -> None:
    """Raise AssayError for a template without {}."""
    if "{}" not in template:
        raise AssayError(f"scorer.template={template!r} has no {{}} where the text goes")
