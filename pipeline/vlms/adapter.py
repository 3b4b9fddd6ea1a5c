"""What the transformers models share: prompts through the processor, canvases through its own resizing."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from pipeline.errors import AssayError
from pipeline.vlms.prepared import Ints, Prepared, grid_footprints
from pipeline.vlms.query import around, in_prompt, query_span, tokenised
from pipeline.vlms.vlm import Vlm

TOLERANCE = 1e-4
"""Normalised units; one grey level is at least .01."""


class TransformersVlm(Vlm):
    """A model of transformers with its processor.

    The token grid is what the processor's output says, checked against the prompt's placeholders; the canvas
    is the processor's own resizing, checked to give the processor's own pixels.
    """

    def __init__(self, module: nn.Module, processor: Any, *, attention: str) -> None:
        tokenizer = processor.tokenizer
        if tokenizer.pad_token_id is None:
            raise AssayError(
                f"{self.name}: the tokenizer has no pad token, which stands for a token that is gone"
            )
        super().__init__(
            module,
            attention=attention,
            pad_id=int(tokenizer.pad_token_id),
            end_ids=_end_ids(module, tokenizer),
        )
        self.processor = processor
        self.tokenizer = tokenizer
        self.config: Any = module.config

    @property
    @abstractmethod
    def token_side(self) -> int:
        """Pixels a side of the square that one visual token stands for."""

    @abstractmethod
    def image_settings(self) -> dict[str, Any]:
        """Arguments of the image processor that are the same in every call."""

    @abstractmethod
    def to_canvas(self, values: Any) -> np.ndarray[Any, Any]:
        """Return (height, width, 3) grey levels from the image processor's unscaled output for one image."""

    @abstractmethod
    def encode(self, values: Any) -> Tensor:
        """Return the projected visual tokens (B, m, d) from the image processor's output for B images."""

    @property
    def decoder_layers(self) -> list[nn.Module]:
        """The language model's layers, first to last."""
        module: Any = self.module
        return list(module.model.language_model.layers)

    def text(self, ids: Ints) -> str:
        """Return the text of token ids (k,), special tokens left out, white space stripped."""
        return cast(str, self.tokenizer.decode(ids.tolist(), skip_special_tokens=True)).strip()

    def image_features(self, canvases: Sequence[Image.Image], prepared: Prepared) -> Tensor:
        """Return the projected visual tokens (B, m, d); raises AssayError where m is not the prompt's."""
        features = self.encode(self._values(list(canvases)))
        if features.shape[:2] != (len(canvases), prepared.n_patches):
            raise AssayError(
                f"{self.name}: the model makes {tuple(features.shape[:2])} visual tokens of {len(canvases)} "
                f"images, the prompt has {prepared.n_patches}; the processor's files do not fit the model's"
            )
        return features

    def prepare(self, image: Image.Image, question: str) -> Prepared:
        """Return the prompt that the model's chat template makes of `question` and `image`.

        Raises AssayError for an empty question, one that holds a special token, and an image smaller than a
        visual token.
        """
        question = question.strip()
        image = image.convert("RGB")
        if min(image.size) < self.token_side:
            raise AssayError(
                f"{self.name}: an image of {image.size[0]} x {image.size[1]} pixels is smaller than one "
                f"visual token of {self.token_side} x {self.token_side}; use a larger image"
            )
        before, after = around(self._render)
        prompt = before + question + after
        made = self._process(image, prompt)
        canvas = self._canvas(image, made)
        plain, spans = tokenised(self.tokenizer, prompt)
        found, tokens = query_span(prompt, len(before), len(before) + len(question), spans)
        ids = made["input_ids"][0].numpy().astype(np.int64)
        rows, columns = canvas.size[1] // self.token_side, canvas.size[0] // self.token_side
        return Prepared(
            question=question,
            canvas=canvas,
            footprints=grid_footprints(rows, columns, self.token_side),
            grid=(rows, columns),
            input_ids=ids,
            image_positions=np.flatnonzero(ids == self.config.image_token_id),
            query_positions=in_prompt(ids, plain, found, self._after_image(plain, question)),
            tokens=tuple(tokens),
            extra=self.extra(made),
        )

    def extra(self, made: Any) -> dict[str, Any]:
        """Return what this model wants of the processor's output beside the ids."""
        return {}

    def _render(self, question: str) -> str:
        if not getattr(self.processor, "chat_template", None):
            raise AssayError(
                f"{self.name}: the processor has no chat template; take a folder or a revision with "
                "chat_template.jinja or chat_template.json"
            )
        content = [{"type": "image"}, {"type": "text", "text": question}]
        messages = [{"role": "user", "content": content}]
        made: str = self.processor.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        return made

    def _process(self, image: Image.Image, prompt: str) -> Any:
        try:
            return self.processor(images=[image], text=[prompt], return_tensors="pt", **self.image_settings())
        except (ValueError, TypeError, ZeroDivisionError) as error:
            size = f"{image.size[0]} x {image.size[1]}"
            raise AssayError(
                f"{self.name}: the processor refuses an image of {size} pixels with this prompt: {error}"
            ) from error

    def _canvas(self, image: Image.Image, made: Any) -> Image.Image:
        values = self.processor.image_processor(
            images=[image], return_tensors="pt", do_rescale=False, do_normalize=False, **self.image_settings()
        )
        levels = self.to_canvas(values)
        canvas = Image.fromarray(np.clip(np.rint(levels), 0, 255).astype(np.uint8))
        again, given = self._values([canvas])["pixel_values"], made["pixel_values"]
        if again.shape != given.shape or float((again - given).abs().max()) > TOLERANCE:
            raise AssayError(
                f"{self.name}: the canvas of {canvas.size[0]} x {canvas.size[1]} does not give the "
                f"processor's own pixels {tuple(given.shape)}; this version of transformers resizes otherwise"
            )
        return canvas

    def _values(self, canvases: list[Image.Image]) -> Any:
        """Rescale and normalise canvases, which have their final size."""
        settings = self.image_settings() | {"do_resize": False, "do_center_crop": False, "do_pad": False}
        return self.processor.image_processor(images=canvases, return_tensors="pt", **settings)

    def _after_image(self, plain: Sequence[int], question: str) -> int:
        places = [i for i, each in enumerate(plain) if each == self.config.image_token_id]
        if len(places) != 1:
            raise AssayError(
                f"question={question!r}: the prompt holds {len(places)} image placeholders, not one; take "
                f"{self.tokenizer.decode([self.config.image_token_id])} out of the question"
            )
        return places[0] + 1

    def _tensor(self, values: Tensor) -> Tensor:
        module: Any = self.module
        return values.to(self.device, module.dtype)


def stacked(features: Any) -> Tensor:
    """Return (B, m, d) from what `get_image_features` gives: a tensor, or one tensor an image."""
    return features if torch.is_tensor(features) else torch.stack(list(features))


def _end_ids(module: nn.Module, tokenizer: Any) -> set[int]:
    settings: Any = getattr(module, "generation_config", None)
    given = getattr(settings, "eos_token_id", None)
    ids = given if isinstance(given, list | tuple) else [given]
    return {int(each) for each in [*ids, tokenizer.eos_token_id] if each is not None}
