"""What checkpoints of other libraries have in common: JSON beside tensors, checked by name and shape."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pipeline.errors import AssayError
from pipeline.files import read_json
from pipeline.models import weights

COMPILED = "_orig_mod."
"""What torch.compile puts before each name."""


def read_config(path: Path) -> dict[str, Any]:
    """Read a JSON object; raises AssayError, naming the file, for anything else."""
    if not path.is_file():
        raise AssayError(
            f"{path} is missing: it says which activation the SAE has, and the weights alone do not"
        )
    try:
        config = read_json(path)
    except ValueError as error:
        raise AssayError(f"{path}: not JSON ({error})") from None
    if not isinstance(config, dict):
        raise AssayError(f"{path}: holds a {type(config).__name__}, not an object of settings")
    return config


class Tensors:
    """The tensors of one checkpoint as float32, by name; what is missing or misshapen is an AssayError."""

    def __init__(self, path: Path) -> None:
        """Read a .safetensors file, or a torch file with weights_only=True."""
        if not path.is_file():
            raise AssayError(f"sae.path: {path} is missing")
        self.path = path
        read: Mapping[str, Tensor] = weights.read(path)
        self.values = {name.removeprefix(COMPILED): value.float() for name, value in read.items()}
        if bad := [name for name, value in self.values.items() if not torch.isfinite(value).all()]:
            raise AssayError(f"{path}: {', '.join(bad)} holds NaN or infinity")

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def __getitem__(self, name: str) -> Tensor:
        if name not in self.values:
            raise AssayError(f"{self.path}: the tensor {name} is missing; it holds {sorted(self.values)}")
        return self.values[name]

    def matrix(self, name: str, shape: tuple[int, int] | None = None) -> Tensor:
        """Return a tensor of two dimensions, of `shape` where one is given."""
        value = self[name]
        if value.ndim != 2 or (shape is not None and tuple(value.shape) != shape):
            raise AssayError(
                f"{self.path}: {name} is {tuple(value.shape)}, not {shape or 'a matrix'}; is it transposed?"
            )
        return value

    def scalar(self, name: str) -> float:
        """Return a tensor of one number."""
        if self[name].numel() != 1:
            raise AssayError(f"{self.path}: {name} is {tuple(self[name].shape)}, not one number")
        return float(self[name])


def gate_threshold(gate_bias: Tensor, magnitude_bias: Tensor, log_scale: Tensor) -> Tensor:
    """Return the threshold (D,) that makes a gated encoder a JumpReLU one.

    With u = x W, a latent is on where u + gate_bias > 0 and its code is ReLU(exp(log_scale) u +
    magnitude_bias): the same as that code's pre-activation being above magnitude_bias - exp(log_scale)
    gate_bias. Source: Rajamanoharan et al. 2024 (arXiv 2404.16014, section 3.2 and appendix).
    """
    return magnitude_bias - log_scale.exp() * gate_bias
