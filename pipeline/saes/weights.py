"""The weights that SAEs start from, and S SAEs of one shape as one stack of tensors."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from pipeline.seeds import generator


def first_weights(seed: int, d: int, n_latents: int) -> tuple[Tensor, Tensor]:
    """Return encoder (d, D) and decoder (D, d) before training; equal for every variant.

    The encoder is Kaiming-uniform for d inputs (He et al. 2015: bound sqrt(6 / d)); the decoder's rows are
    the encoder's columns at length 1. They depend on (seed, d, D) alone: a frozen SAE has the encoder and
    decoder that a trained one of the same seed starts from.
    """
    bound = np.sqrt(6 / d)
    drawn = generator(seed, "sae", "weights", d, n_latents).uniform(-bound, bound, (d, n_latents))
    encoder = torch.from_numpy(drawn.astype(np.float32))
    return encoder, unit_rows(encoder.T)


def unit_rows(rows: Tensor) -> Tensor:
    """Return rows (..., D, d) at length 1, computed in float64; a row of zeros stays."""
    exact = rows.double()
    lengths = exact.norm(dim=-1, keepdim=True)
    return (exact / torch.where(lengths > 0, lengths, 1)).float().contiguous()


class Stack:
    """S SAEs of one shape: encoder (S, d, D), decoder (S, D, d), and their biases (S, D) and (S, d).

    The members share no number: each one's results are those of training it alone.
    """

    def __init__(
        self, seeds: Sequence[int], d: int, n_latents: int, centre: Tensor, device: torch.device
    ) -> None:
        """Start each member from its seed's first weights, its decoder bias at `centre` (d,).

        The centre is the mean of the training rows: what Bricken et al. 2023 (Towards Monosemanticity,
        appendix) do with the geometric median, so that no step is spent on finding it.
        """
        pairs = [first_weights(seed, d, n_latents) for seed in seeds]
        self.encoder = _learned(torch.stack([encoder for encoder, _ in pairs]), device)
        self.decoder = _learned(torch.stack([decoder for _, decoder in pairs]), device)
        self.encoder_bias = _learned(torch.zeros(len(seeds), n_latents), device)
        self.decoder_bias = _learned(centre.expand(len(seeds), d), device)

    def parameters(self) -> list[Tensor]:
        """Return the four tensors that Adam moves."""
        return [self.encoder, self.encoder_bias, self.decoder, self.decoder_bias]

    def pre(self, inputs: Tensor) -> Tensor:
        """Return pre-activations (S, B, D) of normalised inputs (S, B, d): (x - decoder bias) W + bias.

        The decoder's bias is multiplied on its own, so that its gradient costs no product of all rows.
        """
        shift = self.encoder_bias[:, None] - product(self.decoder_bias[:, None], self.encoder)
        return product(inputs, self.encoder) + shift

    def decode(self, codes: Tensor) -> Tensor:
        """Return codes (S, B, D) decoded, (S, B, d)."""
        return product(codes, self.decoder) + self.decoder_bias[:, None]

    @torch.no_grad()
    def drop_parallel_gradient(self) -> None:
        """Take from each decoder row's gradient its part along the row, which would change its length."""
        gradient = self.decoder.grad
        assert gradient is not None
        gradient -= (gradient * self.decoder).sum(dim=-1, keepdim=True) * self.decoder

    @torch.no_grad()
    def renormalise(self) -> None:
        """Bring each decoder row back to length 1."""
        self.decoder /= self.decoder.norm(dim=-1, keepdim=True).clamp_min(torch.finfo(torch.float32).tiny)

    @torch.no_grad()
    def member(self, which: int) -> dict[str, Tensor]:
        """Return copies of one member's four tensors on the CPU, decoder rows at length 1."""
        copies = {
            name: getattr(self, name)[which].detach().cpu().clone()
            for name in ("encoder", "encoder_bias", "decoder", "decoder_bias")
        }
        return {**copies, "decoder": unit_rows(copies["decoder"])}


def product(left: Tensor, right: Tensor) -> Tensor:
    """Return the products (S, B, E) float32 of (S, B, C) and (S, C, E), one member after another.

    A batched product may sum a member's numbers in another order when it stands in a larger stack, and
    selections of the largest codes turn a last bit into another SAE.
    """
    if len(left) == 1:
        return (left[0] @ right[0]).float()[None]
    return torch.stack([one @ other for one, other in zip(left, right, strict=True)]).float()


def _learned(start: Tensor, device: torch.device) -> Tensor:
    return start.contiguous().to(device).clone().requires_grad_(True)
