"""The score of an answer as a function of the embedded input, and its gradients."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from pipeline.errors import AssayError
from pipeline.vlms.prepared import Ints, Prepared
from pipeline.vlms.vlm import Answer, Decoded, Vlm

TARGETS = ("log_probability", "logit")


def embedded(
    vlm: Vlm,
    prepared: Prepared,
    answer: Answer,
    *,
    canvas: Image.Image | None = None,
    prompt: Ints | None = None,
) -> Tensor:
    """Return the embeddings (1, L + k - 1, d) of the prompt and all but the last of the answer's k tokens.

    The projected image is spliced in; `canvas` and `prompt` (L,) replace the clean image and prompt. The
    result is a leaf without gradients. Raises AssayError for an answer of no tokens.
    """
    if len(answer.ids) == 0:
        raise AssayError(
            f"{vlm.name}: the answer to {prepared.question!r} is empty (the model ends at once), so there is "
            "nothing to explain; leave the sample out"
        )
    ids = np.append(prepared.input_ids if prompt is None else prompt, answer.ids[:-1])
    with torch.no_grad():
        features = vlm.image_features([canvas or prepared.canvas], prepared)
        return vlm.splice(prepared, vlm.token_ids(ids[None]), features).detach()


def answer_score(
    vlm: Vlm, prepared: Prepared, answer: Answer, embeddings: Tensor, target: str, **outputs: bool
) -> tuple[Tensor, Decoded]:
    """Return the answer's score (B,) float64 on embeddings (B, L + k - 1, d), and the whole pass.

    The score is the sum over the answer's tokens, each after those before it, of the logit or the log
    probability, as `target` says. `outputs` ask `decode` for attentions or hidden states.
    """
    if target not in TARGETS:
        raise AssayError(f"attribution.target={target!r} is not one of {', '.join(TARGETS)}")
    decoded = vlm.decode(embeddings, prepared, keep=len(answer.ids), **outputs)
    # In float32 a confident answer has probability 1 and gradients of exactly 0.
    values = decoded.logits.double()
    if target == "log_probability":
        values = values.log_softmax(-1)
    ids = vlm.token_ids(np.asarray(answer.ids)[None]).expand(len(values), -1)
    return values.gather(-1, ids[..., None])[..., 0].sum(-1), decoded


def gradients(score: Tensor, tensors: Sequence[Tensor], place: str) -> tuple[Tensor, ...]:
    """Return the gradient of sum(score) at each tensor, `place` in words.

    Raises AssayError where a tensor is not in the graph of the score, or where all gradients are exactly 0.
    """
    found: tuple[Tensor | None, ...] = (None,)
    if score.requires_grad and all(each.requires_grad for each in tensors):
        found = torch.autograd.grad(score.sum(), list(tensors), allow_unused=True)
    kept = tuple(each for each in found if each is not None)
    if len(kept) < len(found):
        raise AssayError(
            f"{place}: the answer's score does not depend on it through the graph; choose another layer, "
            "or an explainer without gradients"
        )
    require_any(kept, place)
    return kept


def require_any(gradient: Sequence[Tensor], place: str) -> None:
    """Raise AssayError where gradients are 0 throughout: zeros would pass for a map."""
    if not any(bool(each.any()) for each in gradient):
        raise AssayError(
            f"{place}: every gradient of the answer's score is exactly 0; choose an earlier layer, or set "
            "attribution.target=logit where the answer's probability is 1"
        )


def numbers(tensor: Tensor) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return a tensor as a float64 array."""
    array: np.ndarray[Any, np.dtype[np.float64]] = tensor.detach().double().cpu().numpy()
    return array
