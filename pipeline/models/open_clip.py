"""The image towers of the open_clip library."""

import difflib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import open_clip
from open_clip.pretrained import (
    download_pretrained_from_hf,
    get_pretrained_cfg,
    list_pretrained_tags_by_model,
)
from open_clip.transform import PreprocessCfg, image_transform_v2
from torch import Tensor, nn

from pipeline.errors import AssayError
from pipeline.files import read_json
from pipeline.models.loaded import Loaded
from pipeline.models.weights import local_path, seeded

MODEL_CONFIG = "open_clip_config.json"
PREPROCESSING = ("mode", "mean", "std", "interpolation", "resize_mode", "fill_color")
QUICK = "-quickgelu"


class ImageTower(nn.Module):
    """The visual tower of a model, so that layers have the names that they have in the whole."""

    def __init__(self, visual: nn.Module) -> None:
        super().__init__()
        self.visual = visual

    def forward(self, images: Tensor) -> Any:
        """Map (B, 3, H, W) to the pooled and projected embeddings (B, d), whatever their length."""
        return self.visual(images)


def load(*, arch: str, weights: Mapping[str, Any], input_size: int | None) -> Loaded:
    """Load the image tower of a built-in open_clip architecture with the transform of its weights.

    Layers are module paths from `visual`, such as visual.transformer.resblocks.11.mlp.gelu; the layer
    `visual` itself is the embedding, pooled and projected, not scaled to length 1. `weights` are the
    settings of the config (source hub, file or random). A file is read with the open_clip_config.json
    beside it, as in a hub repository. Another `input_size` resizes the positions. Raises AssayError for an
    unknown architecture or tag, for weights that do not fit, and where the weights were trained with
    another activation function (QuickGELU) or it cannot be known.
    """
    config = _architecture(arch)
    path, told = _weights(arch, config, weights)
    with seeded(weights.get("seed", 0)):
        tower = ImageTower(_visual(arch, path, input_size, _preprocessing(told)))
    settings: dict[str, Any] = dict(tower.visual.preprocess_cfg)  # type: ignore[arg-type]
    transform = image_transform_v2(PreprocessCfg(**settings), is_train=False)
    size = settings["size"]
    side = int(size if isinstance(size, int) else size[0])
    return Loaded(tower.eval(), transform, side, n_prefix_tokens=_n_prefix_tokens(tower.visual))


def _architecture(arch: str) -> dict[str, Any]:
    known = open_clip.list_models()
    if arch not in known:
        near = difflib.get_close_matches(arch, known, n=5)
        raise AssayError(f"model.arch={arch!r} is not a built-in open_clip architecture; nearest: {near}")
    config: dict[str, Any] = open_clip.get_model_config(arch)
    return config


def _weights(
    arch: str, config: Mapping[str, Any], weights: Mapping[str, Any]
) -> tuple[Path | None, Mapping[str, Any]]:
    """Return the weight file, and what is told of how it was trained."""
    if weights["source"] == "hub":
        return _from_hub(arch, config, weights["tag"], weights["revision"])
    if weights["source"] == "file":
        return _from_file(arch, config, weights)
    entries = [get_pretrained_cfg(arch, tag) for tag in list_pretrained_tags_by_model(arch)]
    return None, entries[0] if entries else {}


def _from_hub(
    arch: str, config: Mapping[str, Any], tag: str, revision: str
) -> tuple[Path, Mapping[str, Any]]:
    entry: Mapping[str, Any] = get_pretrained_cfg(arch, tag)
    if not entry.get("hf_hub"):
        tags = list_pretrained_tags_by_model(arch)
        raise AssayError(f"weights.tag={tag!r}: open_clip has no such hub weights of {arch}; it has {tags}")
    _check_activation(arch, config, bool(entry.get("quick_gelu")), f"weights.tag={tag!r}")
    repository, _, name = entry["hf_hub"].rpartition("/")
    try:
        path = download_pretrained_from_hf(repository, filename=name or None, revision=revision)
    except OSError as error:
        raise AssayError(
            f"{repository} at revision {revision} cannot be downloaded ({str(error)[:200]}); check the "
            "network and the revision, or download its files to a folder and use weights.source=file"
        ) from error
    return Path(path), entry


def _from_file(
    arch: str, config: Mapping[str, Any], weights: Mapping[str, Any]
) -> tuple[Path, Mapping[str, Any]]:
    path = local_path(weights)
    if weights.get("match", "name") != "name":
        raise AssayError(f"weights.match={weights['match']}: open_clip's weights are matched by name alone")
    beside = path.parent / MODEL_CONFIG
    told = read_json(beside) if beside.is_file() else {}
    entries = [get_pretrained_cfg(arch, tag) for tag in list_pretrained_tags_by_model(arch)]
    if "model_cfg" in told:
        quick = bool(told["model_cfg"].get("quick_gelu"))
        _check_activation(arch, config, quick, f"weights.path={path}, by its {MODEL_CONFIG},")
    elif not config.get("quick_gelu") and any(entry.get("quick_gelu") for entry in entries):
        raise _untold(arch, path, f"are for {arch} or for {arch}{QUICK}, which cannot be seen from them")
    if "preprocess_cfg" in told:
        return path, told["preprocess_cfg"]
    if len({json.dumps(_preprocessing(entry), sort_keys=True) for entry in entries}) > 1:
        raise _untold(arch, path, "differ in how images are normalised")
    return path, entries[0] if entries else {}


def _untold(arch: str, path: Path, why: str) -> AssayError:
    return AssayError(
        f"model.arch={arch}: its weights {why}; put their {MODEL_CONFIG} beside the weight file, "
        f"in {path.parent}"
    )


def _check_activation(arch: str, config: Mapping[str, Any], quick: bool, weights: str) -> None:
    if quick == bool(config.get("quick_gelu")):
        return
    other = f"{arch}{QUICK}" if quick else arch.removesuffix(QUICK)
    there = other != arch and other in open_clip.list_models()
    fix = f"use model.arch={other}" if there else "take other weights"
    raise AssayError(
        f"{weights} was trained {'with' if quick else 'without'} QuickGELU, and {arch} is built "
        f"{'without' if quick else 'with'} it, which changes every activation; {fix}"
    )


def _preprocessing(told: Mapping[str, Any]) -> dict[str, Any]:
    return {key: told[key] for key in PREPROCESSING if key in told}


def _visual(arch: str, path: Path | None, input_size: int | None, preprocessing: dict[str, Any]) -> nn.Module:
    try:
        model = open_clip.create_model(
            arch,
            pretrained=None if path is None else str(path),
            force_image_size=input_size,
            force_preprocess_cfg=preprocessing,
            pretrained_text=False,
            weights_only=True,
        )
    except (RuntimeError, KeyError, ValueError, OSError, ImportError) as error:
        place = path or "untrained weights"
        raise AssayError(f"model.arch={arch} cannot be built from {place}: {str(error)[:300]}") from error
    visual: nn.Module = model.visual
    return visual


def _n_prefix_tokens(visual: nn.Module) -> int:
    if hasattr(visual, "class_embedding"):
        return 1
    return int(getattr(getattr(visual, "trunk", None), "num_prefix_tokens", 0) or 0)
