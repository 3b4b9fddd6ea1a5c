"""open_clip's built-in architectures with their weights, and what those expect of an image."""

import difflib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import open_clip
from open_clip.pretrained import (
    download_pretrained_from_hf,
    get_pretrained_cfg,
    list_pretrained_tags_by_model,
)
from open_clip.transform import PreprocessCfg, image_transform_v2

from pipeline.errors import AssayError
from pipeline.files import read_json
from pipeline.models.downloads import is_of_network
from pipeline.models.images import Transform
from pipeline.models.weights import local_path

MODEL_CONFIG = "open_clip_config.json"
PREPROCESSING = ("mode", "mean", "std", "interpolation", "resize_mode", "fill_color")
QUICK = "-quickgelu"


@dataclass(frozen=True)
class Architecture:
    """A built-in architecture: its name, the config key that named it, and open_clip's config of it."""

    name: str
    key: str
    config: Mapping[str, Any]

    @property
    def tags(self) -> list[str]:
        """The pretrained tags that open_clip knows of it."""
        return list(list_pretrained_tags_by_model(self.name))

    def entry(self, tag: str) -> Mapping[str, Any]:
        """Return what open_clip knows of one tag; empty for an unknown one."""
        entry: Mapping[str, Any] = get_pretrained_cfg(self.name, tag)
        return entry


@dataclass(frozen=True)
class Weights:
    """The weight file of an architecture (None: untrained), and the image settings it was trained with."""

    path: Path | None
    preprocessing: Mapping[str, Any]


def architecture(name: str, key: str) -> Architecture:
    """Return a built-in architecture; `key` (model.arch, scorer.arch) is what errors call it.

    Raises AssayError for an unknown name, with the nearest ones.
    """
    known = open_clip.list_models()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=5)
        raise AssayError(f"{key}={name!r} is not a built-in open_clip architecture; nearest: {near}")
    return Architecture(name, key, open_clip.get_model_config(name))


def find_weights(arch: Architecture, settings: Mapping[str, Any], also: Iterable[str] = ()) -> Weights:
    """Return the weights that `settings` (source hub, file or random) name, downloaded where need be.

    Hub weights come at the pinned commit, and with them the files `also` of the same repository. A file is
    read with the open_clip_config.json beside it, as in a hub repository. Raises AssayError for an unknown
    tag, a failed download, and where the weights were trained with another activation function (QuickGELU)
    or other image settings, or neither can be known.
    """
    if settings["source"] == "hub":
        return _from_hub(arch, settings["tag"], settings["revision"], also)
    if settings["source"] == "file":
        return _from_file(arch, settings)
    entries = [arch.entry(tag) for tag in arch.tags]
    return Weights(None, _preprocessing(entries[0]) if entries else {})


def build(arch: Architecture, weights: Weights, input_size: int | None = None) -> Any:
    """Return the open_clip model; another `input_size` resizes the positions.

    Raises AssayError where the weights do not fit.
    """
    try:
        return open_clip.create_model(
            arch.name,
            pretrained=None if weights.path is None else str(weights.path),
            force_image_size=input_size,
            force_preprocess_cfg=dict(weights.preprocessing),
            pretrained_text=False,
            weights_only=True,
        )
    except (RuntimeError, KeyError, ValueError, OSError, ImportError, UnpicklingError) as error:
        place = weights.path or "untrained weights"
        raise AssayError(
            f"{arch.key}={arch.name} cannot be built from {place}: {str(error)[:300]}"
        ) from error


def transform(settings: Mapping[str, Any]) -> Transform:
    """Return the evaluation transform of a built model's `visual.preprocess_cfg`."""
    made: Transform = image_transform_v2(PreprocessCfg(**settings), is_train=False)
    return made


def _from_hub(arch: Architecture, tag: str, revision: str, also: Iterable[str]) -> Weights:
    entry = arch.entry(tag)
    if not entry.get("hf_hub"):
        raise AssayError(
            f"weights.tag={tag!r}: open_clip has no such hub weights of {arch.name}; it has {arch.tags}"
        )
    _check_activation(arch, bool(entry.get("quick_gelu")), f"weights.tag={tag!r}")
    repository, _, name = entry["hf_hub"].rpartition("/")
    try:
        path = Path(download_pretrained_from_hf(repository, filename=name or None, revision=revision))
        for each in also:
            download_pretrained_from_hf(repository, filename=each, revision=revision)
    except Exception as error:
        if not is_of_network(error):
            raise
        raise AssayError(
            f"{repository} at revision {revision} cannot be downloaded ({str(error)[:200]}); check the "
            "network and the revision and run the same command again, or download its files to a folder and "
            "use weights.source=file"
        ) from error
    return Weights(path, _preprocessing(entry))


def _from_file(arch: Architecture, settings: Mapping[str, Any]) -> Weights:
    path = local_path(settings)
    if settings.get("match", "name") != "name":
        raise AssayError(f"weights.match={settings['match']}: open_clip's weights are matched by name alone")
    beside = path.parent / MODEL_CONFIG
    told = read_json(beside) if beside.is_file() else {}
    entries = [arch.entry(tag) for tag in arch.tags]
    if "model_cfg" in told:
        quick = bool(told["model_cfg"].get("quick_gelu"))
        _check_activation(arch, quick, f"weights.path={path}, by its {MODEL_CONFIG},")
    elif not arch.config.get("quick_gelu") and any(entry.get("quick_gelu") for entry in entries):
        raise _untold(
            arch, path, f"are for {arch.name} or for {arch.name}{QUICK}, which cannot be seen from them"
        )
    if "preprocess_cfg" in told:
        return Weights(path, _preprocessing(told["preprocess_cfg"]))
    if len({json.dumps(_preprocessing(entry), sort_keys=True) for entry in entries}) > 1:
        raise _untold(arch, path, "differ in how images are normalised")
    return Weights(path, _preprocessing(entries[0]) if entries else {})


def _untold(arch: Architecture, path: Path, why: str) -> AssayError:
    return AssayError(
        f"{arch.key}={arch.name}: its weights {why}; put their {MODEL_CONFIG} beside the weight file, "
        f"in {path.parent}"
    )


def _check_activation(arch: Architecture, quick: bool, weights: str) -> None:
    if quick == bool(arch.config.get("quick_gelu")):
        return
    other = f"{arch.name}{QUICK}" if quick else arch.name.removesuffix(QUICK)
    there = other != arch.name and other in open_clip.list_models()
    fix = f"use {arch.key}={other}" if there else "take other weights"
    raise AssayError(
        f"{weights} was trained {'with' if quick else 'without'} QuickGELU, and {arch.name} is built "
        f"{'without' if quick else 'with'} it, which changes every activation; {fix}"
    )


def _preprocessing(told: Mapping[str, Any]) -> dict[str, Any]:
    return {key: told[key] for key in PREPROCESSING if key in told}
