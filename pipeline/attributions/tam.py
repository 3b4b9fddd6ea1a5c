"""tam: Token Activation Map (Li et al. 2025, arXiv 2506.23270): what the visual tokens would say."""

from typing import Any

import numpy as np
import torch

from pipeline.attributions.answer_score import embedded, numbers
from pipeline.attributions.attribution import Attribution, Floats, Game, attribution
from pipeline.errors import AssayError
from pipeline.vlms.prepared import Prepared
from pipeline.vlms.vlm import Answer, Vlm

NEEDS: frozenset[str] = frozenset()


def attribute(
    vlm: Vlm,
    prepared: Prepared,
    answer: Answer,
    *,
    game: Game | None = None,
    seed: int = 0,
    kernel: int = 3,
) -> Attribution:
    """Score patches by the answer's logits at their positions, clipped at 0, freed of context, then denoised.

    Context is the mix of the maps of earlier tokens, the question's and the answer's, weighted by how much
    the answer's token is said there; of it the least-squares multiple is taken away. Tokens score by the
    clipped logit at their position. An answer of several tokens has the mean of its maps. The authors' joint
    scaling of both modalities is left out, for they are ranked apart. Raises AssayError for an even kernel
    and for an empty answer.
    """
    if kernel < 1 or kernel % 2 == 0:
        raise AssayError(f"attribution.kernel={kernel}: use an odd number")
    n_tokens, n_answer = prepared.n_tokens, len(answer.ids)
    classes = np.append(prepared.input_ids[prepared.query_positions], answer.ids)
    said_at = np.append(prepared.query_positions, len(prepared.input_ids) - 1 + np.arange(n_answer))
    with torch.no_grad():
        logits = vlm.decode(embedded(vlm, prepared, answer), prepared).logits[0]
    scores = np.maximum(numbers(logits[:, torch.from_numpy(classes).to(logits.device)]), 0).T
    maps, said = scores[:, prepared.image_positions], scores[:, said_at]
    patches = np.zeros(prepared.n_patches)
    for token in range(n_tokens, n_tokens + n_answer):
        weights = said[token, :token] * (classes[:token] != classes[token])
        freed = without_context(maps[token], maps[:token], weights)
        patches += rank_gaussian(freed.reshape(prepared.grid), kernel).ravel() / n_answer
    return attribution("tam", prepared, patches, said[n_tokens:, :n_tokens].mean(axis=0))


def without_context(own: Floats, earlier: Floats, weights: Floats) -> Floats:
    """Return relu(own - s mix) (m,): mix the weighted mean of earlier maps (T, m), s by least squares.

    Where no earlier token has weight, or their mix is 0, the map stays.
    """
    if not weights.any():
        return own
    mix = weights @ earlier / weights.sum()
    if not mix.any():
        return own
    return np.asarray(np.maximum(own - mix * ((own @ mix) / (mix @ mix)), 0))


def rank_gaussian(image: Floats, kernel: int) -> Floats:
    """Return an image (rows, columns) of values 0 or more, each the Gaussian mean of its sorted neighbours.

    The Gaussian stands over the ranks, centred on the median; its width is the window's standard deviation
    over its mean. Borders are mirrored. A constant window keeps its value.
    """
    margin, size = kernel // 2, kernel * kernel
    windows: Any = np.lib.stride_tricks.sliding_window_view(
        np.pad(image, margin, mode="reflect"), (kernel, kernel)
    )
    ranked = np.sort(windows.reshape(*image.shape, size), axis=-1)
    mean = ranked.mean(axis=-1, keepdims=True)
    spread = ranked.std(axis=-1, keepdims=True) / np.where(mean > 0, mean, 1)
    # A constant window has spread 0, up to rounding: any width gives its value.
    width = np.where(spread > 1e-12, spread, 1)
    weights = np.exp(-((np.arange(size) - size // 2) ** 2) / (2 * width**2))
    return np.asarray((ranked * weights).sum(axis=-1) / weights.sum(axis=-1))
