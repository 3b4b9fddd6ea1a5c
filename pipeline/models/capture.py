"""The output of named layers, pooled to one number a unit while the model runs."""

import difflib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from pipeline.errors import AssayError

POOLS = ("avg", "max", "cls", "none")


def check_layers(module: nn.Module, layers: Sequence[str]) -> None:
    """Raise AssayError where a layer is not a module path; the message lists the nearest ones."""
    known = [name for name, _ in module.named_modules() if name]
    for layer in layers:
        if layer not in known:
            near = difflib.get_close_matches(layer, known, n=5, cutoff=0.4) or known[-5:]
            raise AssayError(f"layer={layer!r} is not in {type(module).__name__}; nearest: {', '.join(near)}")


def pooled(
    output: Any, *, layer: str, pool: str, n_prefix_tokens: int, channels_first: bool = True
) -> Tensor:
    """Reduce one layer's output to (B, U) float32.

    A tuple or list counts as its first tensor. Units are channels: a map (B, C, H, W) or
    (B, H, W, C) is reduced over H and W, tokens (B, T, C) over those after the prefix; `cls` is
    token 0. Which axis of a map holds the channels is read from its square sides, and where all
    three sides are equal from `channels_first`. An output (B, U) is kept under every pool; `none`
    flattens what follows the batch, each position a unit. Raises AssayError where a pool does
    not fit the shape.
    """
    tensor = output[0] if isinstance(output, tuple | list) and output else output
    if not torch.is_tensor(tensor) or tensor.ndim < 2:
        what = tuple(tensor.shape) if torch.is_tensor(tensor) else type(tensor).__name__
        raise AssayError(f"layer={layer}: its output is {what}, not (images, ...); choose another layer")
    tensor = tensor.float()
    if tensor.ndim == 2 or pool == "none":
        return tensor.flatten(1).clone()
    if tensor.ndim == 3:
        return _pooled_tokens(tensor, layer, pool, n_prefix_tokens)
    return _pooled_map(tensor, layer, pool, channels_first)


def _pooled_tokens(tensor: Tensor, layer: str, pool: str, n_prefix_tokens: int) -> Tensor:
    if pool == "cls":
        if n_prefix_tokens == 0:
            raise _unfit(tensor, layer, pool, "the model has no class token: use model.pool=avg or max")
        return tensor[:, 0].clone()
    patches = tensor[:, n_prefix_tokens:]
    if patches.shape[1] == 0:
        raise _unfit(tensor, layer, pool, "only prefix tokens are left: use model.pool=cls")
    return patches.mean(1) if pool == "avg" else patches.amax(1)


def _pooled_map(tensor: Tensor, layer: str, pool: str, channels_first: bool) -> Tensor:
    if tensor.ndim != 4 or pool == "cls":
        fix = (
            "a map has no class token: use model.pool=avg or max"
            if tensor.ndim == 4
            else "use model.pool=none"
        )
        raise _unfit(tensor, layer, pool, fix)
    _, a, b, c = tensor.shape
    if (a == b) != (b == c):
        channels_first = b == c
    sides = (2, 3) if channels_first else (1, 2)
    return tensor.mean(sides) if pool == "avg" else tensor.amax(sides)


def _unfit(tensor: Tensor, layer: str, pool: str, fix: str) -> AssayError:
    shape = ", ".join(["images", *map(str, tensor.shape[1:])])
    return AssayError(f"model.pool={pool} does not fit layer={layer}, whose output is ({shape}): {fix}")


class _Complete(Exception):  # noqa: N818
    """Every wanted layer has run: the rest of the forward pass is not needed."""


@dataclass
class Capture:
    """Pooled outputs of the last forward pass, by layer.

    The first pass runs to its end and counts how often each layer runs (a module may be used
    more than once: its last output counts); later passes stop after the last one needed.
    """

    module: nn.Module
    layers: tuple[str, ...]
    pool: Callable[[str, Any], Tensor]
    outputs: dict[str, Tensor] = field(default_factory=dict)
    seen: Counter[str] = field(default_factory=Counter)
    expected: Counter[str] | None = None

    def record(self, layer: str, output: Any) -> None:
        """Take one output, and end the pass if it was the last that is needed."""
        self.seen[layer] += 1
        self.outputs[layer] = self.pool(layer, output)
        if self.seen == self.expected:
            raise _Complete

    def __call__(self, batch: Tensor) -> dict[str, Tensor]:
        """Run the model on (B, 3, H, W); return (B, U) float32 by layer."""
        self.outputs, self.seen = {}, Counter()
        try:
            self.module(batch)
        except _Complete:
            return self.outputs
        silent = [layer for layer in self.layers if layer not in self.outputs]
        if silent:
            raise AssayError(f"layer={silent[0]} is in the model, but does not run on images; choose another")
        self.expected = self.seen
        return self.outputs


@contextmanager
def capture(
    module: nn.Module, layers: Sequence[str], pool: str, *, n_prefix_tokens: int = 0
) -> Iterator[Capture]:
    """Hook the layers; the yielded Capture maps images (B, 3, H, W) to (B, U) by layer."""
    check_layers(module, layers)
    if pool not in POOLS:
        raise AssayError(f"model.pool={pool!r} is not one of {', '.join(POOLS)}")
    submodules = {layer: module.get_submodule(layer) for layer in dict.fromkeys(layers)}
    last = str(getattr(module, "output_fmt", "NCHW")).endswith("NHWC")
    first = {layer: not (last or isinstance(each, nn.Linear)) for layer, each in submodules.items()}

    def pool_layer(layer: str, output: Any) -> Tensor:
        return pooled(
            output, layer=layer, pool=pool, n_prefix_tokens=n_prefix_tokens, channels_first=first[layer]
        )

    taken = Capture(module, tuple(submodules), pool_layer)
    hooks = [
        each.register_forward_hook(lambda _m, _i, output, layer=layer: taken.record(layer, output))
        for layer, each in submodules.items()
    ]
    try:
        yield taken
    finally:
        for hook in hooks:
            hook.remove()
