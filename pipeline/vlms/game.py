"""The game of one answer: how probable it stays while patches and tokens go."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pipeline.errors import AssayError
from pipeline.models.batch_size import BatchSize, Pieces
from pipeline.vlms.prepared import Prepared
from pipeline.vlms.states import BLUR_RADIUS, Kept, blurred_canvas, masked_canvas, padded_ids, patch_map
from pipeline.vlms.vlm import Answer, Vlm

Floats = np.ndarray[Any, np.dtype[np.float64]]
Encoded = dict[bytes, Tensor]
"""Visual tokens (m, d) by the kept patches, packed."""


class VlmGame:
    """f(A, B) = exp sum_i log p(y_i | image sharp in A alone, question real in B alone, y before i).

    Source: Ky, Ghamizi, Cordy, arXiv 2605.22168, section on states. Outside A the canvas is blurred, outside
    B a token is the pad token; the attention mask stays all ones. Within a call equal states are computed
    once, and states are run image by image, so each distinct image is encoded once. The sharp and the
    blurred image are encoded alone and kept for later calls; nothing else is, so that values depend to the
    last bit on the states of their own call alone (with batch_size "auto" also on the memory that was free,
    which cuts the batches). With `reuse_prefix` the states of one image in a batch share the language
    model's keys and values of everything before the question, where the image comes first. n_forwards
    counts states decoded, n_encoded images encoded. Raises AssayError for an empty answer.
    """

    def __init__(
        self,
        vlm: Vlm,
        prepared: Prepared,
        answer: Answer,
        *,
        batch_size: BatchSize = 64,
        blur_radius: float = BLUR_RADIUS,
        reuse_prefix: bool = True,
    ) -> None:
        if len(answer.ids) == 0:
            raise AssayError(
                f"{vlm.name}: the answer to {prepared.question!r} is empty (the model ends at once), so its "
                "probability is 1 in every state; leave the sample out"
            )
        if batch_size != "auto" and batch_size < 1:
            raise AssayError(f"loader.batch_size={batch_size}: use 1 or more")
        self.vlm, self.prepared, self.answer = vlm, prepared, answer
        self._pieces = Pieces(batch_size, str(vlm.device))
        self.n_forwards = self.n_encoded = 0
        first = int(prepared.query_positions.min())
        self._shared = first if reuse_prefix and prepared.image_positions.max() < first else 0
        self._blurred = blurred_canvas(prepared, blur_radius)
        self._owner = patch_map(prepared)
        self._ends: Encoded = {}
        self._latest: Encoded = {}

    def __call__(self, patches: Kept, tokens: Kept) -> Floats:
        """Return f (S,) float64 in [0, 1] of S states: kept patches (S, m) and kept tokens (S, n)."""
        patches, tokens = self._checked(patches, tokens)
        if len(patches) == 0:
            return np.empty(0)
        distinct, row = np.unique(np.hstack([patches, tokens]), axis=0, return_inverse=True)
        kept = distinct[:, : self.prepared.n_patches], distinct[:, self.prepared.n_patches :]
        values = np.empty(len(distinct))
        self._latest = {}
        with torch.inference_mode():
            run = self._pieces.over(len(distinct), lambda rows: self._values(kept[0][rows], kept[1][rows]))
            for rows, found in run:
                values[rows] = found
        return values[row.reshape(-1)]

    def _checked(self, patches: Kept, tokens: Kept) -> tuple[Kept, Kept]:
        patches, tokens = np.asarray(patches), np.asarray(tokens)
        wanted = (len(patches), self.prepared.n_patches), (len(patches), self.prepared.n_tokens)
        if (patches.shape, tokens.shape) != wanted or patches.dtype != bool or tokens.dtype != bool:
            raise AssayError(
                f"kept patches {patches.shape} {patches.dtype} and tokens {tokens.shape} {tokens.dtype} must "
                f"be bool of (states, {wanted[0][1]}) and (states, {wanted[1][1]})"
            )
        return patches, tokens

    def _values(self, patches: Kept, tokens: Kept) -> Floats:
        images, row = np.unique(patches, axis=0, return_inverse=True)
        features = self._features(images)
        rows = torch.from_numpy(row.reshape(-1)).to(self.vlm.device)
        prompts = padded_ids(self.prepared, tokens, self.vlm.pad_id)
        answers = np.tile(self.answer.ids[:-1], (len(prompts), 1))
        logits = self._logits(self.vlm.token_ids(np.hstack([prompts, answers])), features, rows)
        self.n_forwards += len(prompts)
        return self.vlm.log_probabilities(logits, self.answer.ids).exp().cpu().numpy()

    def _logits(self, sequences: Tensor, features: Tensor, rows: Tensor) -> Tensor:
        """Return the logits (B, k, V) for the answer after sequences (B, L), row i on image rows[i]."""
        vlm, prepared, keep, shared = self.vlm, self.prepared, len(self.answer.ids), self._shared
        if not shared:
            return vlm.decode(vlm.splice(prepared, sequences, features[rows]), prepared, keep=keep).logits
        start = vlm.token_ids(prepared.input_ids[None, :shared]).expand(len(features), -1)
        prefix = vlm.prefix(vlm.splice(prepared, start, features), prepared)
        return vlm.continued(prefix, rows, vlm.embed(sequences[:, shared:]), prepared, keep=keep)

    def _features(self, images: Kept) -> Tensor:
        """Return the visual tokens (I, m, d) of I distinct kept sets, in the order of the call's batches.

        A batch goes on with the last image of the one before, whose images alone are kept.
        """
        keys = [np.packbits(image).tobytes() for image in images]
        for key, image in zip(keys, images, strict=True):
            if (image.all() or not image.any()) and key not in self._ends:
                self._ends |= self._encode([key], image[None])
        known = self._latest | self._ends
        missing = [i for i, key in enumerate(keys) if key not in known]
        known |= self._encode([keys[i] for i in missing], images[missing])
        self._latest = {key: known[key] for key in keys}
        return torch.stack([known[key] for key in keys])

    def _encode(self, keys: Sequence[bytes], images: Kept) -> Encoded:
        if not keys:
            return {}
        canvases = [masked_canvas(self.prepared, image, self._blurred, self._owner) for image in images]
        self.n_encoded += len(keys)
        return dict(zip(keys, self.vlm.image_features(canvases, self.prepared), strict=True))
