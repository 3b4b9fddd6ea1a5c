"""Activations and gradients where a decoder layer begins."""

from dataclasses import dataclass

import torch
from PIL import Image

from pipeline.attributions.answer_score import answer_score, embedded, gradients, numbers, require_any
from pipeline.attributions.attribution import Floats
from pipeline.errors import AssayError
from pipeline.vlms.prepared import Prepared
from pipeline.vlms.vlm import Answer, Vlm


@dataclass(frozen=True)
class HiddenGradients:
    """What enters a decoder layer and the score's gradient there: patches (m, d) and query tokens (n, d)."""

    patches: Floats
    patch_gradients: Floats
    tokens: Floats
    token_gradients: Floats


def hidden_gradients(
    vlm: Vlm,
    prepared: Prepared,
    answer: Answer,
    *,
    layer: int,
    target: str,
    canvas: Image.Image | None = None,
) -> HiddenGradients:
    """Return activation and gradient of the hidden states that enter decoder layer `layer`.

    Layers count from 0, negative ones from the end. The output of the last layer is not offered: there only
    the last row reaches the answer, and every patch has gradient 0. Raises AssayError for a layer that the
    model does not have or that is outside the graph, and where the gradient at all patches or at all query
    tokens is exactly 0.
    """
    n_layers = len(vlm.decoder_layers)
    if not -n_layers <= layer < n_layers:
        raise AssayError(
            f"attribution.layer={layer}: {vlm.name} has decoder layers 0 to {n_layers - 1}; -1 is the last"
        )
    with torch.enable_grad():
        inputs = embedded(vlm, prepared, answer, canvas=canvas).requires_grad_()
        score, decoded = answer_score(vlm, prepared, answer, inputs, target, hidden=True)
        if decoded.hidden is None:
            raise AssayError(f"{vlm.name} returned no hidden states")
        hidden = decoded.hidden[layer % n_layers]
        place = f"decoder layer {layer} of {vlm.name}"
        (gradient,) = gradients(score, [hidden], place)
    image, query = prepared.image_positions, prepared.query_positions
    for name, positions in (("patches", image), ("query tokens", query)):
        require_any([gradient[0, positions]], f"{name} at {place}")
    values, slopes = numbers(hidden[0]), numbers(gradient[0])
    return HiddenGradients(values[image], slopes[image], values[query], slopes[query])
