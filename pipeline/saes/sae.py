"""A sparse autoencoder ready for use: encode, decode, save, load."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from pipeline.errors import AssayError
from pipeline.saes import storage
from pipeline.saes.activation import Activation, noise
from pipeline.saes.normalisation import NAMES as NORMALISATIONS
from pipeline.saes.normalisation import Normalised, normalise

BLOCK = 128
"""Rows of one matrix product, always: a row's sums must not depend on its company."""


@dataclass(frozen=True)
class Sae:
    """Weights and rules of one SAE with D latents on d features.

    `encoder` (d, D), `encoder_bias` (D,), `decoder` (D, d) and `decoder_bias` (d,) are float32; an SAE of
    noise has no encoder. `centred`: the decoder's bias is taken off the input first. A latent fires where
    its code is above 0. `settings` is kept as it was given.
    """

    variant: str
    activation: Activation
    decoder: Tensor
    decoder_bias: Tensor
    encoder: Tensor | None = None
    encoder_bias: Tensor | None = None
    normalisation: str = "standardise"
    centred: bool = True
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise AssayError where a shape, the normalisation or a tensor's content does not fit."""
        if self.normalisation not in NORMALISATIONS:
            raise AssayError(f"SAE normalisation {self.normalisation!r} is not one of {NORMALISATIONS}")
        if (self.encoder is None) != (self.activation.kind == "noise"):
            raise AssayError(f"an SAE of kind {self.activation.kind!r} and its encoder do not fit")
        for name, shape in self._shapes().items():
            value = getattr(self, name)
            if value is not None and tuple(value.shape) != shape:
                raise AssayError(f"SAE {self.variant}: {name} is {tuple(value.shape)}, not {shape}")
        threshold = self.activation.threshold
        if threshold is not None and tuple(threshold.shape) not in ((1,), (self.dictionary_size,)):
            raise AssayError(
                f"SAE {self.variant}: threshold is {tuple(threshold.shape)}, not ({self.dictionary_size},)"
            )

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        n_latents, d = self.dictionary_size, self.d
        return {"encoder": (d, n_latents), "encoder_bias": (n_latents,), "decoder_bias": (d,)}

    @property
    def d(self) -> int:
        """The number of input features."""
        return int(self.decoder.shape[1])

    @property
    def dictionary_size(self) -> int:
        """The number of latents D."""
        return int(self.decoder.shape[0])

    def encode(self, rows: ArrayLike | Tensor) -> Tensor:
        """Return codes (N, D) float32 on the CPU for rows (N, d); see `encode_csr` for large N.

        A row alone has the same codes, to the bit, as in any company: every product has BLOCK rows, the
        last one filled up with zeros. Raises AssayError for another d, and for a row with NaN or infinity.
        """
        blocks = [codes for codes, _ in self.blocks(rows)]
        return torch.cat(blocks) if blocks else torch.zeros(0, self.dictionary_size)

    def reconstruct(self, rows: ArrayLike | Tensor) -> Tensor:
        """Return the reconstruction (N, d) float32 on the CPU, in the input's own space."""
        blocks = [inputs.restore(self.decode(codes)) for codes, inputs in self.blocks(rows)]
        return torch.cat(blocks) if blocks else torch.zeros(0, self.d)

    def decode(self, codes: Tensor) -> Tensor:
        """Return codes (N, D) decoded, (N, d), in the space of the normalised input."""
        return codes.to(self.decoder.device) @ self.decoder + self.decoder_bias

    @torch.inference_mode()
    def blocks(self, rows: ArrayLike | Tensor) -> Iterator[tuple[Tensor, Normalised]]:
        """Yield codes (n, D) and normalised inputs (n, d), block by block of at most BLOCK rows."""
        values = rows.detach().cpu().numpy() if isinstance(rows, Tensor) else rows
        array = values if isinstance(values, np.ndarray) else np.asarray(values)
        if array.ndim != 2 or array.shape[1] != self.d:
            raise AssayError(
                f"activations {array.shape} do not fit an SAE of {self.d} features: (N, {self.d})"
            )
        for start in range(0, len(array), BLOCK):
            block = np.array(array[start : start + BLOCK], dtype=np.float32)
            check_finite(block, start)
            yield self._block(block)

    def _block(self, block: np.ndarray[Any, Any]) -> tuple[Tensor, Normalised]:
        n, device = len(block), self.decoder.device
        padded = torch.zeros(BLOCK, self.d)
        padded[:n] = torch.from_numpy(block)
        inputs = normalise(padded.to(device), self.normalisation)
        kept = Normalised(*(part[:n] for part in inputs))
        if self.encoder is None:
            k, seed = self.activation.k or 0, self.activation.seed or 0
            return torch.from_numpy(noise(block, self.dictionary_size, k, seed)), kept
        pre = (inputs.values - self.decoder_bias if self.centred else inputs.values) @ self.encoder
        if self.encoder_bias is not None:
            pre = pre + self.encoder_bias
        return self.activation.codes(pre.float()[:n]), kept

    def to(self, device: torch.device | str) -> "Sae":
        """Return the SAE with its tensors on a device."""
        names = ("encoder", "encoder_bias", "decoder", "decoder_bias")
        moved = {name: getattr(self, name).to(device) for name in names if getattr(self, name) is not None}
        return replace(self, **moved)

    def save(self, path: Path) -> None:
        """Write one safetensors file whose header says variant, activation, sizes and settings."""
        tensors = {
            "encoder": self.encoder,
            "encoder_bias": self.encoder_bias,
            "decoder": self.decoder,
            "decoder_bias": self.decoder_bias,
            "threshold": self.activation.threshold,
        }
        header = {
            "variant": self.variant,
            "activation": self.activation.facts(),
            "normalisation": self.normalisation,
            "centred": self.centred,
            "d": self.d,
            "dictionary_size": self.dictionary_size,
            "settings": dict(self.settings),
        }
        storage.write(path, {name: value for name, value in tensors.items() if value is not None}, header)


def load(path: Path) -> Sae:
    """Read an SAE written by `Sae.save`; raises AssayError, naming the file, for any other content."""
    tensors, header = storage.read(path)
    try:
        activation = Activation(**header["activation"], threshold=tensors.get("threshold"))
        sae = Sae(
            variant=header["variant"],
            activation=activation,
            decoder=tensors["decoder"],
            decoder_bias=tensors["decoder_bias"],
            encoder=tensors.get("encoder"),
            encoder_bias=tensors.get("encoder_bias"),
            normalisation=header["normalisation"],
            centred=header["centred"],
            settings=header["settings"],
        )
    except KeyError as error:
        raise AssayError(f"{path}: the tensor {error} is missing; save the SAE again") from None
    except AssayError as error:
        raise AssayError(f"{path}: {error}") from None
    if (sae.d, sae.dictionary_size) != (header["d"], header["dictionary_size"]):
        raise AssayError(
            f"{path}: the header says {header['d']} x {header['dictionary_size']}, the decoder is "
            f"{sae.d} x {sae.dictionary_size}"
        )
    return sae


def check_finite(rows: np.ndarray[Any, Any], start: int) -> None:
    """Raise AssayError, naming the row, where activations (n, d) are not finite; row 0 is `start`."""
    bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if len(bad):
        raise AssayError(
            f"activations row {start + bad[0]} holds NaN or infinity ({len(bad)} rows in this block); "
            "compute the activations again with numerics.precision=float32"
        )
