"""Any open_clip model as a scorer, from the hub at a pinned commit, from a file, or untrained."""

import difflib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
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
from pipeline.models.device import inference
from pipeline.models.images import Images, Transform, batches
from pipeline.models.weights import local_path, seeded
from pipeline.scorers.scorer import Embeddings, unit_rows

MODEL_CONFIG = "open_clip_config.json"
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json")
PREPROCESSING = ("mode", "mean", "std", "interpolation", "resize_mode", "fill_color")


@dataclass(frozen=True)
class OpenClip:
    """An open_clip model in evaluation mode with its transform, tokenizer and text template."""

    model: nn.Module
    transform: Transform
    tokenize: Callable[[list[str]], Tensor]
    template: str
    n_dimensions: int

    def embed_images(
        self,
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
        """Return (N, d) float32, each row of length 1."""
        blocks = []
        with inference(device, precision=precision, tf32=tf32, threads=threads) as target:
            model: Any = self.model.to(target)
            label = "image embeddings" if progress else ""
            source = batches(
                images, self.transform, batch_size=batch_size, workers=workers, device=target, progress=label
            )
            for _, batch in source:
                blocks.append(model.encode_image(batch).float().cpu().numpy())
        return unit_rows(np.concatenate(blocks), "image row")

    def embed_texts(
        self,
        texts: Sequence[str],
        *,
        batch_size: int = 256,
        device: str = "cpu",
        precision: str = "float32",
        tf32: bool = False,
        threads: int | None = None,
    ) -> Embeddings:
        """Return (T, d) float32, each row of length 1; `{}` in the template is the text."""
        filled = [self.template.replace("{}", text) for text in texts]
        if not filled:
            return np.empty((0, self.n_dimensions), dtype=np.float32)
        blocks = []
        with inference(device, precision=precision, tf32=tf32, threads=threads) as target:
            model: Any = self.model.to(target)
            for start in range(0, len(filled), batch_size):
                numbers = self.tokenize(filled[start : start + batch_size]).to(target)
                blocks.append(model.encode_text(numbers).float().cpu().numpy())
        return unit_rows(np.concatenate(blocks), "text")


def load(*, arch: str, weights: Mapping[str, Any], template: str) -> OpenClip:
    """Load a built-in open_clip architecture; `weights` are the settings of the config.

    A file that needs more than the architecture's name says (a tokenizer from the hub, another
    image normalisation) is read with what lies beside it: tokenizer.json and
    open_clip_config.json, as in a hub repository. Raises AssayError for an unknown architecture
    or tag, for a tag trained with another activation function, a template without {}, and for
    weights or a tokenizer that cannot be read.
    """
    config = _architecture(arch)
    if "{}" not in template:
        raise AssayError(f"scorer.template={template!r} has no {{}} where the text goes")
    source = weights["source"]
    path, folder = None, None
    if source == "hub":
        path, folder = _from_hub(arch, config, weights["tag"], weights["revision"])
    elif source == "file":
        path = local_path(weights)
        folder = path.parent
    forced = _preprocessing(arch, weights.get("tag"), folder)
    with seeded(weights.get("seed", 0)):
        model = _build(arch, path, forced)
    transform = image_transform_v2(PreprocessCfg(**model.visual.preprocess_cfg), is_train=False)
    tokenize = _tokenizer(arch, config, folder)
    return OpenClip(model.eval(), transform, tokenize, template, int(config["embed_dim"]))


def _architecture(arch: str) -> dict[str, Any]:
    known = open_clip.list_models()
    if arch not in known:
        near = difflib.get_close_matches(arch, known, n=5)
        raise AssayError(f"scorer.arch={arch!r} is not a built-in open_clip architecture; nearest: {near}")
    config: dict[str, Any] = open_clip.get_model_config(arch)
    return config


def _from_hub(arch: str, config: dict[str, Any], tag: str, revision: str) -> tuple[Path, Path]:
    entry = get_pretrained_cfg(arch, tag)
    if not entry.get("hf_hub"):
        tags = list_pretrained_tags_by_model(arch)
        raise AssayError(f"weights.tag={tag!r}: open_clip has no such hub weights of {arch}; it has {tags}")
    _check_activation(arch, config, tag, entry)
    repository, _, name = entry["hf_hub"].rpartition("/")
    try:
        path = Path(download_pretrained_from_hf(repository, filename=name or None, revision=revision))
        if config["text_cfg"].get("hf_tokenizer_name"):
            for each in TOKENIZER_FILES:
                download_pretrained_from_hf(repository, filename=each, revision=revision)
    except OSError as error:
        raise AssayError(
            f"{repository} at revision {revision} cannot be downloaded ({str(error)[:200]}); check the "
            "network and the revision, or download its files to a folder and use weights.source=file"
        ) from error
    return path, path.parent


def _check_activation(arch: str, config: dict[str, Any], tag: str, entry: Mapping[str, Any]) -> None:
    quick = bool(config.get("quick_gelu"))
    other = arch.removesuffix("-quickgelu") if quick else f"{arch}-quickgelu"
    if quick != bool(entry.get("quick_gelu")) and other != arch and other in open_clip.list_models():
        raise AssayError(
            f"weights.tag={tag!r} was trained with another activation function than {arch} has; "
            f"use scorer.arch={other}"
        )


def _preprocessing(arch: str, tag: str | None, folder: Path | None) -> dict[str, Any]:
    """Return what the weights expect of an image: by tag, by the file's folder, or by all tags."""
    if tag is not None:
        return _only_preprocessing(get_pretrained_cfg(arch, tag))
    if folder is not None and (folder / MODEL_CONFIG).is_file():
        return _only_preprocessing(read_json(folder / MODEL_CONFIG).get("preprocess_cfg", {}))
    entries = [get_pretrained_cfg(arch, each) for each in list_pretrained_tags_by_model(arch)]
    choices = {json.dumps(_only_preprocessing(entry), sort_keys=True) for entry in entries}
    if len(choices) > 1 and folder is not None:
        raise AssayError(
            f"scorer.arch={arch}: its weights differ in how images are normalised; "
            f"put their {MODEL_CONFIG} beside the weight file, in {folder}"
        )
    return _only_preprocessing(entries[0]) if entries else {}


def _only_preprocessing(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {key: entry[key] for key in PREPROCESSING if key in entry}


def _build(arch: str, path: Path | None, forced: dict[str, Any]) -> Any:
    pretrained = None if path is None else str(path)
    try:
        return open_clip.create_model(
            arch,
            pretrained=pretrained,
            force_preprocess_cfg=forced,
            pretrained_text=False,
            weights_only=True,
        )
    except (RuntimeError, KeyError, OSError, ImportError) as error:
        place = path or "an untrained model"
        raise AssayError(f"scorer.arch={arch} cannot be built from {place}: {str(error)[:300]}") from error


def _tokenizer(arch: str, config: dict[str, Any], folder: Path | None) -> Callable[[list[str]], Tensor]:
    tokenizer: Callable[[list[str]], Tensor]
    text = config["text_cfg"]
    name = text.get("hf_tokenizer_name")
    beside = folder is not None and all((folder / each).is_file() for each in TOKENIZER_FILES)
    try:
        if name and beside:
            tokenizer = open_clip.tokenizer.HFTokenizer(
                str(folder),
                context_length=text.get("context_length", 77),
                tokenizer_mode=text.get("tokenizer_mode"),
                **text.get("tokenizer_kwargs", {}),
            )
        else:
            tokenizer = open_clip.get_tokenizer(arch)
    except ImportError as error:
        raise AssayError(
            f"the tokenizer of {arch} needs transformers; run: pip install 'assay[crowd]'"
        ) from error
    except (OSError, ValueError) as error:
        raise AssayError(
            f"the tokenizer of {arch} ({name}) cannot be downloaded ({str(error)[:200]}); put its "
            f"{' and '.join(TOKENIZER_FILES)} beside the weight file and use weights.source=file"
        ) from error
    return tokenizer
