"""How an SAE scales each row of its input, and its output back."""

from typing import NamedTuple

import torch
from torch import Tensor

EPSILON = 1e-5
NAMES = ("standardise", "layer_norm", "constant_norm", "none")


class Normalised(NamedTuple):
    """Rows as the SAE sees them; `restore` undoes it for a reconstruction.

    `values` (N, d) float32; `shift` and `scale` (N, 1) float32: input space = values * scale + shift.
    """

    values: Tensor
    shift: Tensor
    scale: Tensor

    def restore(self, reconstruction: Tensor) -> Tensor:
        """Map a reconstruction (N, d) to the input's space."""
        return reconstruction * self.scale + self.shift


def normalise(rows: Tensor, name: str) -> Normalised:
    """Normalise each row (N, d) on its own, with statistics in float64.

    standardise: (x - mean) / (deviation + 1e-5) over the row's d features, restored by the same two
    numbers; the deviation has d - 1 in its denominator (a row of one feature, or a constant one, becomes
    0). layer_norm and constant_norm: what sae-lens calls layer_norm (the same, restored without the
    1e-5) and constant_norm_rescale (each row at length sqrt(d)). A row of zeros stays 0.
    """
    exact = rows.double()
    zero, one = exact.new_zeros(len(exact), 1), exact.new_ones(len(exact), 1)
    if name == "none":
        return Normalised(rows.float(), zero.float(), one.float())
    if name == "constant_norm":
        length = exact.norm(dim=1, keepdim=True)
        scale = torch.where(length > 0, length / exact.shape[1] ** 0.5, one)
        return Normalised((exact / scale).float(), zero.float(), scale.float())
    shift = exact.mean(dim=1, keepdim=True)
    centred = exact - shift
    deviation = (centred.square().sum(dim=1, keepdim=True) / max(exact.shape[1] - 1, 1)).sqrt()
    scale = deviation if name == "layer_norm" else deviation + EPSILON
    return Normalised((centred / (deviation + EPSILON)).float(), shift.float(), scale.float())
