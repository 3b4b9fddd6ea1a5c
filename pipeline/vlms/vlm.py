"""What every vision-language model offers to games and explainers."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from pipeline.errors import AssayError
from pipeline.vlms.prepared import Ints, Prepared

ATTENTIONS = ("eager", "sdpa")


@dataclass(frozen=True)
class Answer:
    """The model's own greedy answer: k token ids without the end token, their text, their log-probability.

    k is 0 where the model ends at once; then no game can be played on the answer.
    """

    ids: Ints
    text: str
    log_probability: float


@dataclass(frozen=True)
class Decoded:
    """One pass of the language model over B sequences of L positions.

    logits (B, L, V), or their last positions; attentions: (B, heads, L, L) a layer; hidden: (B, L, d), first
    the input of the first layer, then the output of each (the last one after the final norm).
    """

    logits: Tensor
    attentions: tuple[Tensor, ...] | None = None
    hidden: tuple[Tensor, ...] | None = None


@dataclass(frozen=True)
class Prefix:
    """Keys and values (U, heads, P, d_head) of each layer for the first P positions of U prompts."""

    length: int
    layers: tuple[tuple[Tensor, Tensor], ...]


class Vlm(ABC):
    """A frozen vision-language model in evaluation mode.

    Visual tokens enter the language model as embeddings at the image's positions; that seam is open here, so
    that encoded images are reused and explainers can take gradients at it.
    """

    name: str

    def __init__(self, module: nn.Module, *, attention: str, pad_id: int, end_ids: Collection[int]) -> None:
        self.module = module.eval().requires_grad_(False)
        self.attention = attention
        self.pad_id = pad_id
        self.end_ids = frozenset(end_ids)

    @abstractmethod
    def prepare(self, image: Image.Image, question: str) -> Prepared:
        """Return the prompt that asks `question` about `image`.

        Raises AssayError for a question without tokens and for an image smaller than a visual token.
        """

    @abstractmethod
    def image_features(self, canvases: Sequence[Image.Image], prepared: Prepared) -> Tensor:
        """Return the projected visual tokens (B, m, d) of B canvases of `prepared`'s size.

        Differentiable where the caller has gradients on.
        """

    @abstractmethod
    def text(self, ids: Ints) -> str:
        """Return the text of token ids (k,)."""

    @property
    @abstractmethod
    def decoder_layers(self) -> list[nn.Module]:
        """The language model's layers, first to last."""

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.module.parameters()).device

    def token_ids(self, ids: Ints) -> Tensor:
        """Return ids (B, L) as a tensor where the weights are."""
        return torch.from_numpy(np.ascontiguousarray(ids, dtype=np.int64)).to(self.device)

    def embed(self, token_ids: Tensor) -> Tensor:
        """Return the embeddings (B, L, d) of token ids (B, L)."""
        module: Any = self.module
        embeddings: Tensor = module.get_input_embeddings()(token_ids)
        return embeddings

    def splice(self, prepared: Prepared, token_ids: Tensor, features: Tensor) -> Tensor:
        """Return token embeddings (B, L, d) with the visual tokens (B, m, d) at the image's positions.

        L may exceed the prompt's: an answer may follow it.
        """
        embeddings = self.embed(token_ids).clone()
        positions = torch.from_numpy(prepared.image_positions).to(embeddings.device)
        embeddings[:, positions] = features.to(embeddings.dtype)
        return embeddings

    def position_ids(self, prepared: Prepared, n_rows: int, length: int) -> Tensor | None:
        """Return the positions that the language model must be told; None where it counts by itself."""
        return None

    def decode(
        self,
        inputs_embeds: Tensor,
        prepared: Prepared,
        *,
        attentions: bool = False,
        hidden: bool = False,
        keep: int = 0,
    ) -> Decoded:
        """Run the language model on embeddings (B, L, d); the attention mask is all ones.

        `keep` limits the logits to that many last positions (0: all). Raises AssayError where attentions are
        asked of an implementation that does not return them.
        """
        if attentions and self.attention != "eager":
            raise AssayError(
                f"vlm.attention={self.attention} returns no attentions; use vlm.attention=eager for rollout "
                "and gradient rollout"
            )
        n_rows, length, _ = inputs_embeds.shape
        out = self.module(
            inputs_embeds=inputs_embeds,
            attention_mask=self._ones(n_rows, length),
            position_ids=self.position_ids(prepared, n_rows, length),
            output_attentions=attentions,
            output_hidden_states=hidden,
            use_cache=False,
            logits_to_keep=keep,
        )
        if attentions and not (out.attentions and all(each is not None for each in out.attentions)):
            raise AssayError(f"{self.name}: the model returned no attentions; use vlm.attention=eager")
        return Decoded(
            out.logits,
            tuple(out.attentions) if attentions else None,
            tuple(out.hidden_states) if hidden else None,
        )

    def prefix(self, inputs_embeds: Tensor, prepared: Prepared) -> Prefix:
        """Run the language model on the first P embeddings (U, P, d) of U prompts, to be continued.

        Later positions cannot change what a causal model computes here.
        """
        n_rows, length, _ = inputs_embeds.shape
        positions = self.position_ids(prepared, n_rows, len(prepared.input_ids))
        out = self.module(
            inputs_embeds=inputs_embeds,
            attention_mask=self._ones(n_rows, length),
            position_ids=None if positions is None else positions[..., :length],
            use_cache=True,
            logits_to_keep=1,
        )
        return Prefix(length, tuple((layer.keys, layer.values) for layer in out.cache.layers))

    def continued(
        self, prefix: Prefix, rows: Tensor, inputs_embeds: Tensor, prepared: Prepared, *, keep: int = 0
    ) -> Tensor:
        """Return the logits (B, L - P, V) of embeddings (B, L - P, d), row i after the prompt rows[i] of U.

        Equal to `decode` on the whole sequences up to rounding. `keep` is as there.
        """
        from transformers import DynamicCache

        n_rows, length = len(inputs_embeds), prefix.length + inputs_embeds.shape[1]
        positions = self.position_ids(prepared, n_rows, length)
        logits: Tensor = self.module(
            inputs_embeds=inputs_embeds,
            attention_mask=self._ones(n_rows, length),
            position_ids=None if positions is None else positions[..., prefix.length :],
            cache=DynamicCache([(keys[rows], values[rows]) for keys, values in prefix.layers]),
            use_cache=True,
            logits_to_keep=keep,
        ).logits
        return logits

    def _ones(self, n_rows: int, length: int) -> Tensor:
        return torch.ones((n_rows, length), dtype=torch.long, device=self.device)

    @property
    def pad_norm(self) -> float:
        """Euclidean length of the pad token's embedding, which stands for a token that is gone."""
        return float(self.embed(torch.tensor([[self.pad_id]], device=self.device)).double().norm())

    def log_probabilities(self, logits: Tensor, answer_ids: Ints) -> Tensor:
        """Return sum_i log p(y_i) (B,) float64; the logits (B, k, V) predict the answer's k tokens."""
        ids = self.token_ids(answer_ids).expand(len(logits), -1)
        logs = logits.double().log_softmax(-1)
        return logs.gather(-1, ids[..., None])[..., 0].sum(-1)

    def answer(self, prepared: Prepared, *, max_new_tokens: int = 8) -> Answer:
        """Return the greedy answer on the clean input; of equal logits the lowest id wins.

        It stops before the end token, which is not part of the answer, or after `max_new_tokens`.
        """
        if max_new_tokens < 1:
            raise AssayError(
                f"vlm.max_new_tokens={max_new_tokens} leaves no room for an answer; use 1 or more"
            )
        ids: list[int] = []
        total = 0.0
        with torch.inference_mode():
            features = self.image_features([prepared.canvas], prepared)
            while len(ids) < max_new_tokens:
                sequence = self.token_ids(np.append(prepared.input_ids, ids)[None])
                last = self.decode(self.splice(prepared, sequence, features), prepared, keep=1).logits[0, -1]
                logs = last.double().log_softmax(-1)
                best = int((logs == logs.max()).nonzero()[0, 0])
                if best in self.end_ids:
                    break
                ids.append(best)
                total += float(logs[best])
        made = np.array(ids, dtype=np.int64)
        return Answer(made, self.text(made), total)
