"""input_x_gradient: embedding times gradient, over all channels (Shrikumar et al. 2016, arXiv 1605.01713)."""

import torch

from pipeline.attributions.answer_score import answer_score, embedded, gradients, numbers
from pipeline.attributions.attribution import Attribution, Floats, Game, of_positions
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
    target: str = "log_probability",
) -> Attribution:
    """Score a position by the sum over d of embedding times gradient of the answer's score.

    The embedding is the language model's input with the projected image spliced in. Signed: what speaks
    against the answer ranks last. Raises AssayError for an empty answer and gradients of exactly 0.
    """
    scores = relevance(vlm, prepared, answer, target)
    return of_positions("input_x_gradient", prepared, scores)


def relevance(vlm: Vlm, prepared: Prepared, answer: Answer, target: str) -> Floats:
    """Return embedding times gradient of every position (L + k - 1,), the answer's own among them."""
    with torch.enable_grad():
        inputs = embedded(vlm, prepared, answer).requires_grad_()
        score, _ = answer_score(vlm, prepared, answer, inputs, target)
        (gradient,) = gradients(score, [inputs], f"the input embedding of {vlm.name}")
    return numbers((inputs.double() * gradient.double()).sum(-1)[0])
