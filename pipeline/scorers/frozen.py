"""The frozen network under the small scorer: images to features, and back from a file."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Unpack

import numpy as np
import torch
from torch import Tensor, nn

from pipeline.errors import AssayError
from pipeline.models.batch_size import BatchSize, Pieces, at_once
from pipeline.models.capture import capture
from pipeline.models.device import inference
from pipeline.models.images import Images, Transform, batches
from pipeline.models.loaded import Loaded
from pipeline.scorers.scorer import Embeddings, Numerics


@dataclass(frozen=True)
class Frozen:
    """A pretrained network that is not trained further, with the preprocessing of its weights.

    It is built when first used: who only embeds texts need not import timm, which takes seconds.
    """

    arch: str
    preprocessing: Mapping[str, Any]
    build: Callable[[], Loaded]

    @cached_property
    def _network(self) -> Loaded:
        return self.build()

    @property
    def module(self) -> nn.Module:
        """The network, in evaluation mode."""
        return self._network.module

    @property
    def n_prefix_tokens(self) -> int:
        """The tokens before the patch tokens."""
        return self._network.n_prefix_tokens

    @property
    def transform(self) -> Transform:
        """The transform from an RGB image to the network's input."""
        from pipeline.models.timm import transform

        return transform(self.preprocessing)

    @property
    def stages(self) -> list[str]:
        """The module paths of timm's `feature_info`."""
        return [str(info["module"]) for info in getattr(self.module, "feature_info", [])]


def load_frozen(*, image_arch: str, image_weights: Mapping[str, Any], input_size: int) -> Frozen:
    """Load a timm network with its weights.

    Raises AssayError where the architecture has no feature stages, and as `models.timm.load`.
    """
    from pipeline.models.timm import load, preprocessing

    loaded = load(arch=image_arch, weights=image_weights, input_size=input_size)
    frozen = Frozen(image_arch, preprocessing(loaded.module, input_size), lambda: loaded)
    if not frozen.stages:
        raise AssayError(f"scorer.image_arch={image_arch}: timm lists no feature stages; choose another")
    return frozen


def rebuild(arch: str, config: Mapping[str, Any], state: Mapping[str, Tensor]) -> Frozen:
    """Return the network that `state` and `config` (its preprocessing) were stored from."""

    def build() -> Loaded:
        from pipeline.models.timm import load

        loaded = load(arch=arch, weights={"source": "random"}, input_size=int(config["input_size"][-1]))
        loaded.module.load_state_dict(state)
        return loaded

    kept = {name: tuple(value) if isinstance(value, list) else value for name, value in config.items()}
    return Frozen(arch, kept, build)


def features(
    frozen: Frozen,
    images: Images,
    *,
    batch_size: BatchSize,
    workers: int,
    device: str,
    progress: bool = False,
    **numerics: Unpack[Numerics],
) -> Embeddings:
    """Return (N, F) float32: every stage of the network, averaged over the image, side by side."""
    blocks = []
    with inference(device, **numerics) as target:
        module = frozen.module.to(target).to(memory_format=torch.channels_last)
        label = "scorer features" if progress else ""
        source = batches(
            images,
            frozen.transform,
            batch_size=at_once(batch_size),
            workers=workers,
            device=target,
            progress=label,
        )
        with capture(module, frozen.stages, "avg", n_prefix_tokens=frozen.n_prefix_tokens) as forward:
            for _, found in Pieces(batch_size, device).through(source, forward):
                blocks.append(torch.cat(list(found.values()), dim=1).cpu().numpy())
    return np.concatenate(blocks)
