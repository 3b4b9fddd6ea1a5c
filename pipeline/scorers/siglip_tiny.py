"""A small text-image scorer, trained here with the SigLIP loss on one split's captions.

The image tower is a frozen pretrained network (never the model under test) and a small trained
head; the text tower is a bag of words, word pairs and letter n-grams.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from pipeline.errors import AssayError
from pipeline.files import replacing
from pipeline.models.batch_size import BatchSize
from pipeline.models.device import threads_of
from pipeline.models.images import Images
from pipeline.scorers.frozen import Frozen, features, load_frozen, rebuild
from pipeline.scorers.ngrams import Vocabulary
from pipeline.scorers.scorer import Embeddings, Numerics, unit_rows
from pipeline.scorers.towers import ImageTower, TextTower, Trained

Captions = Sequence[Sequence[str]]
HEADER = "siglip_tiny"
FORMAT = 1
PREFIXES = ("network.", "image.", "text.")


def save(path: Path, frozen: Frozen, trained: Trained) -> None:
    """Write one .safetensors file with all that `load` needs; its header holds the vocabulary."""
    facts = {
        "format": FORMAT,
        "image_arch": frozen.arch,
        "preprocessing": dict(frozen.preprocessing),
        "vocabulary": trained.vocabulary.known,
    }
    modules = zip(PREFIXES, (frozen.module, trained.image_tower, trained.text_tower), strict=True)
    tensors = {
        prefix + name: value.cpu().contiguous()
        for prefix, module in modules
        for name, value in module.state_dict().items()
    }
    with replacing(path) as temporary:
        save_file(tensors, temporary, metadata={HEADER: json.dumps(facts, ensure_ascii=False)})


@dataclass(frozen=True)
class SiglipTiny:
    """The trained scorer on its frozen network."""

    frozen: Frozen
    trained: Trained

    def embed_images(
        self,
        images: Images,
        *,
        batch_size: BatchSize,
        workers: int,
        device: str,
        progress: bool = False,
        **numerics: Unpack[Numerics],
    ) -> Embeddings:
        """Return (N, d) float32, each row of length 1."""
        values = features(
            self.frozen,
            images,
            batch_size=batch_size,
            workers=workers,
            device=device,
            progress=progress,
            **numerics,
        )
        return embed_features(self.trained, values, threads=numerics.get("threads"))

    def embed_texts(
        self,
        texts: Sequence[str],
        *,
        batch_size: int = 256,
        device: str = "cpu",
        **numerics: Unpack[Numerics],
    ) -> Embeddings:
        """Return (T, d) float32, each row of length 1; always computed on the CPU in float32."""
        encoded = [self.trained.vocabulary.encode(text) for text in texts]
        blocks = [np.empty((0, self.trained.text_tower.bag.embedding_dim), dtype=np.float32)]
        with threads_of(numerics.get("threads")), torch.inference_mode():
            for start in range(0, len(encoded), batch_size):
                blocks.append(self.trained.text_tower(encoded[start : start + batch_size]).numpy())
        return unit_rows(np.concatenate(blocks), "text")


def fit(
    images: Images,
    captions: Captions,
    *,
    image_arch: str,
    image_weights: Mapping[str, Any],
    input_size: int,
    width: int,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    weight_decay: float,
    seed: int,
    loader: Mapping[str, int],
    device: str,
    precision: str = "float32",
    tf32: bool = False,
    threads: int | None = None,
    progress: bool = False,
) -> SiglipTiny:
    """Load the frozen network, compute the features of n images once, and train on their texts.

    `loader` holds batch_size and workers of inference; `batch_size` is the training's. Raises as
    `load_frozen`, `features` and `train`.
    """
    from pipeline.scorers.siglip_training import train

    frozen = load_frozen(image_arch=image_arch, image_weights=image_weights, input_size=input_size)
    values = features(
        frozen,
        images,
        **loader,
        device=device,
        precision=precision,
        tf32=tf32,
        threads=threads,
        progress=progress,
    )
    trained = train(
        values,
        captions,
        width=width,
        epochs=epochs,
        batch_size=batch_size,
        learning_rate=learning_rate,
        weight_decay=weight_decay,
        seed=seed,
        threads=threads,
        progress=progress,
    )
    return SiglipTiny(frozen, trained)


def embed_features(trained: Trained, image_features: Embeddings, *, threads: int | None = None) -> Embeddings:
    """Map the frozen network's features (N, F) to embeddings (N, d) of length 1."""
    with threads_of(threads), torch.inference_mode():
        embedded = trained.image_tower(torch.from_numpy(np.asarray(image_features, dtype=np.float32)))
    return unit_rows(embedded.numpy(), "image row")


def load(path: Path) -> SiglipTiny:
    """Read a scorer that `save` wrote; raises AssayError where the file is not one."""
    facts, tensors = _read(path)
    network, image_state, text_state = (_under(prefix, tensors) for prefix in PREFIXES)
    known = Vocabulary(tuple(facts["vocabulary"]))
    width = text_state["bag.weight"].shape[1]
    image = ImageTower(image_state["mean"], image_state["deviation"], width)
    text = TextTower(len(known), width)
    image.load_state_dict(image_state)
    text.load_state_dict(text_state)
    frozen = rebuild(facts["image_arch"], facts["preprocessing"], network)
    return SiglipTiny(frozen, Trained(image.eval(), text.eval(), known))


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    try:
        with safe_open(path, framework="pt") as file:
            facts = json.loads((file.metadata() or {})[HEADER])
            return facts, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise AssayError(f"{path} is not a trained siglip_tiny scorer ({error}); train it again") from error
