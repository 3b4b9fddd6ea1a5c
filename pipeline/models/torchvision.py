"""Classification models of the torchvision library."""

import difflib
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from torch import nn
from torchvision import models
from torchvision.models.vision_transformer import VisionTransformer, interpolate_embeddings
from torchvision.transforms._presets import ImageClassification

from pipeline.errors import AssayError
from pipeline.models.loaded import Loaded
from pipeline.models.weights import State, load_by_order, local_path, read, seeded


def load(*, arch: str, weights: Mapping[str, Any], input_size: int | None) -> Loaded:
    """Load a torchvision classification model with the transform of its weights.

    `weights` are the settings of the config (source torchvision, file or random); those that
    bring no transform use that of the architecture's default weights. Another `input_size`
    scales the resize and the crop alike. Raises AssayError for an unknown architecture or tag,
    and for weights that do not fit.
    """
    _check_arch(arch)
    entry = _entry(arch, weights.get("tag"))
    transform = _transform(entry.transforms(), input_size)
    size = int(transform.crop_size[0])
    with seeded(weights.get("seed", 0)):
        module = _build(arch, size)
    _fill(module, weights, entry)
    prefix = 1 if isinstance(module, VisionTransformer) else 0
    return Loaded(module.eval(), transform, input_size=size, n_prefix_tokens=prefix)


def _check_arch(arch: str) -> None:
    known = models.list_models(module=models)
    if arch not in known:
        near = difflib.get_close_matches(arch, known, n=5)
        raise AssayError(f"model.arch={arch!r} is not a torchvision classification model; nearest: {near}")


def _entry(arch: str, tag: str | None) -> Any:
    entries = models.get_model_weights(arch)
    if tag is None or tag == "DEFAULT":
        return entries.DEFAULT
    if tag not in entries.__members__:
        raise AssayError(
            f"weights.tag={tag!r}: torchvision's weights of {arch} are {list(entries.__members__)}"
        )
    return entries[tag]


def _transform(preset: Any, input_size: int | None) -> Any:
    if input_size is None:
        return preset
    resize = round(preset.resize_size[0] * input_size / preset.crop_size[0])
    return ImageClassification(
        crop_size=input_size,
        resize_size=resize,
        mean=tuple(preset.mean),
        std=tuple(preset.std),
        interpolation=preset.interpolation,
        antialias=preset.antialias,
    )


def _build(arch: str, size: int) -> nn.Module:
    arguments: dict[str, Any] = {"image_size": size} if arch.startswith("vit_") else {}
    if arch in ("googlenet", "inception_v3"):
        arguments["init_weights"] = True
    module: nn.Module = models.get_model(arch, weights=None, **arguments)
    return module


def _fill(module: nn.Module, weights: Mapping[str, Any], entry: Any) -> None:
    source = weights["source"]
    if source == "random":
        return
    if source == "file" and weights.get("match", "name") == "order":
        load_by_order(module, local_path(weights))
        return
    state = _downloaded(entry) if source == "torchvision" else read(local_path(weights))
    try:
        module.load_state_dict(_resized(module, state))
    except (RuntimeError, ValueError) as error:
        raise AssayError(f"weights {dict(weights)} do not fit by name ({str(error)[:300]})") from error


def _downloaded(entry: Any) -> State:
    try:
        state: State = entry.get_state_dict(progress=False, check_hash=True, weights_only=True)
    except (OSError, RuntimeError) as error:
        raise AssayError(
            f"{entry.url} cannot be downloaded ({str(error)[:200]}); check the network, "
            "or use weights.source=file"
        ) from error
    return state


def _resized(module: nn.Module, state: State) -> Mapping[str, Any]:
    if not isinstance(module, VisionTransformer) or "encoder.pos_embedding" not in state:
        return state
    resized: State = interpolate_embeddings(module.image_size, module.patch_size, OrderedDict(state))
    return resized
