"""The frozen network under the small scorer: images to features, and back from a file."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pipeline.errors import AssayError
from pipeline.models.capture import capture
from pipeline.models.device import inference
from pipeline.models.images import Images, Transform, batches
from pipeline.models.timm import load as load_timm
from pipeline.models.timm import preprocessing, transform
from pipeline.scorers.scorer import Embeddings


@dataclass(frozen=True)
class Frozen:
    """A pretrained network that is not trained further, with the preprocessing of its weights."""

    arch: str
    module: nn.Module
    preprocessing: Mapping[str, Any]
    n_prefix_tokens: int

    @property
    def transform(self) -> Transform:
        """The transform from an RGB image to the network's input."""
        return transform(self.preprocessing)

    @property
    def stages(self) -> list[str]:
        """The module paths of timm's `feature_info`."""
        return [str(info["module"]) for info in getattr(self.module, "feature_info", [])]


def load_frozen(*, image_arch: str, image_weights: Mapping[str, Any], input_size: int) -> Frozen:
    """Load a timm network with its weights.

    Raises AssayError where the architecture has no feature stages, and as `models.timm.load`.
    """
    loaded = load_timm(arch=image_arch, weights=image_weights, input_size=input_size)
    config = preprocessing(loaded.module, input_size)
    frozen = Frozen(image_arch, loaded.module, config, loaded.n_prefix_tokens)
    if not frozen.stages:
        raise AssayError(f"scorer.image_arch={image_arch}: timm lists no feature stages; choose another")
    return frozen


def rebuild(arch: str, config: Mapping[str, Any], state: Mapping[str, Tensor]) -> Frozen:
    """Return the network that `state` and `config` (its preprocessing) were stored from."""
    loaded = load_timm(arch=arch, weights={"source": "random"}, input_size=int(config["input_size"][-1]))
    loaded.module.load_state_dict(state)
    kept = {name: tuple(value) if isinstance(value, list) else value for name, value in config.items()}
    return Frozen(arch, loaded.module, kept, loaded.n_prefix_tokens)


def features(
    frozen: Frozen,
    images: Images,
    *,
    batch_size: int,
    workers: int,
    device: str,
    precision: str = "float32",
    tf32: bool = False,
    threads: int | None = None,
    progress: bool = False,
) -> Embeddings:
    """Return (N, F) float32: every stage of the network, averaged over the image, side by side."""
    blocks = []
    with inference(device, precision=precision, tf32=tf32, threads=threads) as target:
        module = frozen.module.to(target).to(memory_format=torch.channels_last)
        label = "scorer features" if progress else ""
        source = batches(
            images, frozen.transform, batch_size=batch_size, workers=workers, device=target, progress=label
        )
        with capture(module, frozen.stages, "avg", n_prefix_tokens=frozen.n_prefix_tokens) as forward:
            for _, batch in source:
                blocks.append(torch.cat(list(forward(batch).values()), dim=1).cpu().numpy())
    return np.concatenate(blocks)
