"""rollout: attention multiplied through the layers (Abnar and Zuidema 2020, arXiv 2005.00928)."""

from collections.abc import Sequence

import torch
from torch import Tensor

from pipeline.attributions.answer_score import embedded, numbers
from pipeline.attributions.attribution import Attribution, Game, of_positions
from pipeline.errors import AssayError
from pipeline.vlms.prepared import Prepared
from pipeline.vlms.vlm import Answer, Vlm

NEEDS = frozenset({"attentions"})


def attribute(
    vlm: Vlm, prepared: Prepared, answer: Answer, *, game: Game | None = None, seed: int = 0
) -> Attribution:
    """Score a position by its share in the last prompt row of the product of (A + I) / 2 over layers.

    A is the mean over heads on the clean prompt. Blind to which answer is explained. Raises AssayError where
    the model does not return attentions.
    """
    with torch.no_grad():
        inputs = embedded(vlm, prepared, answer)[:, : len(prepared.input_ids)]
        attentions = vlm.decode(inputs, prepared, attentions=True, keep=1).attentions
    row = rolled([each[0] for each in required(vlm, attentions)])
    return of_positions("rollout", prepared, numbers(row))


def rolled(attentions: Sequence[Tensor]) -> Tensor:
    """Return the last row (L,) float64 of the rollout of attentions (heads, L, L), first layer first."""
    row = torch.zeros(attentions[0].shape[-1], dtype=torch.float64, device=attentions[0].device)
    row[-1] = 1
    # The last row alone is wanted: a vector times each matrix, from the last layer down.
    for attention in reversed(attentions):
        row = (row + row @ attention.double().mean(0)) / 2
    return row


def required(vlm: Vlm, attentions: Sequence[Tensor | None] | None) -> list[Tensor]:
    """Return the attentions of every layer; AssayError where one is missing."""
    found = [each for each in attentions or () if each is not None]
    if len(found) < len(vlm.decoder_layers):
        raise AssayError(
            f"{vlm.name} gave attentions of {len(found)} of {len(vlm.decoder_layers)} layers; use "
            "vlm.attention=eager"
        )
    return found
