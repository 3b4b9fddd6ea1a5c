"""grad_rollout: attention times its gradient through the layers (Chefer et al. 2021, arXiv 2103.15679)."""

from collections.abc import Sequence

import torch
from torch import Tensor

from pipeline.attributions.answer_score import answer_score, embedded, gradients, numbers
from pipeline.attributions.attribution import Attribution, Game, of_positions
from pipeline.attributions.rollout import required
from pipeline.vlms.prepared import Prepared
from pipeline.vlms.vlm import Answer, Vlm

NEEDS = frozenset({"attentions", "gradients"})


def attribute(
    vlm: Vlm,
    prepared: Prepared,
    answer: Answer,
    *,
    game: Game | None = None,
    seed: int = 0,
    target: str = "log_probability",
) -> Attribution:
    """Score a position by its entry in the last prompt row of R, where R <- R + mean over heads of (G A)+ R.

    A are a layer's attentions, G the gradient of the answer's score there; R begins as the identity (sections
    3.1 and 3.2, self-attention). Raises AssayError where the model does not return attentions, or where they
    are outside the graph.
    """
    with torch.enable_grad():
        inputs = embedded(vlm, prepared, answer).requires_grad_()
        score, decoded = answer_score(vlm, prepared, answer, inputs, target, attentions=True)
        attentions = required(vlm, decoded.attentions)
        slopes = gradients(score, attentions, f"the attentions of {vlm.name}")
    pairs = [(each[0].detach(), slope[0]) for each, slope in zip(attentions, slopes, strict=True)]
    return of_positions("grad_rollout", prepared, numbers(rolled(pairs, len(prepared.input_ids) - 1)))


def rolled(pairs: Sequence[tuple[Tensor, Tensor]], last: int) -> Tensor:
    """Return row `last` (L,) float64 of R, from attentions and gradients (heads, L, L), first layer first."""
    attention = pairs[0][0]
    row = torch.zeros(attention.shape[-1], dtype=torch.float64, device=attention.device)
    row[last] = 1
    for attention, slope in reversed(pairs):
        row = row + row @ (attention.double() * slope.double()).clamp(min=0).mean(0)
    return row
