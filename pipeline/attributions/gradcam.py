"""gradcam: mean gradient times activation at a decoder layer (Selvaraju et al. 2017, arXiv 1610.02391)."""

import numpy as np

from pipeline.attributions.attribution import Attribution, Floats, Game, attribution
from pipeline.attributions.hidden_gradients import hidden_gradients
from pipeline.vlms.prepared import Prepared
from pipeline.vlms.vlm import Answer, Vlm

NEEDS = frozenset({"gradients"})


def attribute(
    vlm: Vlm,
    prepared: Prepared,
    answer: Answer,
    *,
    game: Game | None = None,
    seed: int = 0,
    layer: int = -1,
    target: str = "log_probability",
) -> Attribution:
    """Score a position by relu(sum over channels of mean gradient times activation) where `layer` begins.

    The mean runs over the visual tokens for patches and over the query tokens for tokens. Raises AssayError
    for a layer that the model lacks or that has no gradient.
    """
    found = hidden_gradients(vlm, prepared, answer, layer=layer, target=target)
    patches = cam(found.patches, found.patch_gradients)
    return attribution("gradcam", prepared, patches, cam(found.tokens, found.token_gradients))


def cam(activation: Floats, gradient: Floats) -> Floats:
    """Return the class activation (P,) of activations and gradients (P, d)."""
    return np.asarray(np.maximum(activation @ gradient.mean(axis=0), 0))
