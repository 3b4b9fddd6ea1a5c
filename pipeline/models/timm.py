"""Models of the timm library."""

import difflib
from collections.abc import Mapping
from typing import Any, cast

import timm
from timm.data.config import resolve_model_data_config
from timm.data.transforms_factory import create_transform
from torch import nn

from pipeline.errors import AssayError
from pipeline.models.downloads import is_of_network
from pipeline.models.images import Transform
from pipeline.models.loaded import Loaded
from pipeline.models.weights import load_by_order, local_path, read, seeded


def load(*, arch: str, weights: Mapping[str, Any], input_size: int | None) -> Loaded:
    """Load a timm model with its own transform.

    `weights` are the settings of the config (source hub, file, package or random). Another
    `input_size` than the pretrained one resizes positions where the architecture has them.
    Raises AssayError for an unknown architecture or tag, and for weights that do not fit.
    """
    _check_arch(arch)
    with seeded(weights.get("seed", 0)):
        module = _build(arch, weights, _size_arguments(arch, input_size)).eval()
    config = preprocessing(module, input_size)
    prefix = int(getattr(module, "num_prefix_tokens", 0) or 0)
    return Loaded(module, transform(config), int(config["input_size"][-1]), n_prefix_tokens=prefix)


def preprocessing(module: nn.Module, input_size: int | None) -> dict[str, Any]:
    """Return the data settings that the module's weights expect, at another size if it is given."""
    config: dict[str, Any] = resolve_model_data_config(module)  # type: ignore[no-untyped-call]
    return config if input_size is None else config | {"input_size": (3, input_size, input_size)}


def transform(config: Mapping[str, Any]) -> Transform:
    """Return the evaluation transform of these data settings."""
    made: Transform = create_transform(**config, is_training=False)
    return made


def _check_arch(arch: str) -> None:
    if timm.is_model(arch) and "." not in arch:
        return
    near = difflib.get_close_matches(arch.split(".")[0], timm.list_models(), n=5)
    hint = "; the tag belongs into weights.tag" if "." in arch else ""
    raise AssayError(f"model.arch={arch!r} is not a timm architecture{hint}; nearest: {near}")


def _size_arguments(arch: str, input_size: int | None) -> dict[str, Any]:
    config = timm.get_pretrained_cfg(arch)
    fixed = config is not None and config.fixed_input_size
    return {"img_size": input_size} if fixed and input_size is not None else {}


def _build(arch: str, weights: Mapping[str, Any], arguments: dict[str, Any]) -> nn.Module:
    source = weights["source"]
    if source == "hub":
        return _from_hub(arch, weights["tag"], weights["revision"], arguments)
    if source == "file" and weights.get("match", "name") == "name":
        return _from_file(arch, weights, arguments)
    module: nn.Module = timm.create_model(arch, **arguments)
    if source != "random":
        load_by_order(module, local_path(weights))
    return module


def _from_hub(arch: str, tag: str, revision: str, arguments: dict[str, Any]) -> nn.Module:
    name = f"{arch}.{tag}"
    config = timm.get_pretrained_cfg(name) if name in timm.list_pretrained(f"{arch}.*") else None
    if config is None or not config.hf_hub_id:
        tags = [each.split(".", 1)[1] for each in timm.list_pretrained(f"{arch}.*")]
        raise AssayError(f"weights.tag={tag!r}: timm has no such hub weights of {arch}; it has {tags}")
    pinned = {"hf_hub_id": f"{config.hf_hub_id}@{revision}", "custom_load": config.custom_load}
    try:
        return timm.create_model(name, pretrained=True, pretrained_cfg_overlay=pinned, **arguments)
    except Exception as error:
        if not is_of_network(error):
            raise
        raise AssayError(
            f"weights of {config.hf_hub_id} at revision {revision} cannot be downloaded "
            f"({str(error)[:200]}); check the network and the revision and run the same command again, or "
            "use weights.source=file"
        ) from error


def _from_file(arch: str, weights: Mapping[str, Any], arguments: dict[str, Any]) -> nn.Module:
    path = local_path(weights)
    overlay = {"state_dict": read(path)}
    try:
        module: Any = timm.create_model(arch, pretrained=True, pretrained_cfg_overlay=overlay, **arguments)
    except (RuntimeError, KeyError) as error:
        raise AssayError(
            f"weights.path={path} does not fit {arch} by name ({str(error)[:300]}); "
            "weights.match=order matches tensors by position"
        ) from error
    module.pretrained_cfg = {**module.pretrained_cfg, "state_dict": None}
    return cast(nn.Module, module)
