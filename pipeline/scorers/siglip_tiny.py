"""A small text-image scorer, trained here with the SigLIP loss on one split's captions.

The image tower is a frozen pretrained network (never the model under test) and a small trained
head; the text tower is a bag of words, word pairs and letter n-grams.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from open_clip.loss import SigLipLoss
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from scipy import sparse
from torch import Tensor, nn
from tqdm import tqdm

from pipeline.errors import AssayError
from pipeline.files import replacing
from pipeline.models.device import threads_of
from pipeline.models.images import Images
from pipeline.models.weights import seeded
from pipeline.scorers.frozen import Frozen, features, load_frozen, rebuild
from pipeline.scorers.ngrams import Vocabulary, vocabulary
from pipeline.scorers.scorer import Embeddings, unit_rows
from pipeline.scorers.towers import ImageTower, TextTower
from pipeline.seeds import generator

Captions = Sequence[Sequence[str]]
FIRST_SCALE, FIRST_BIAS = 10.0, -10.0
WARM_UP = 0.1
HEADER = "siglip_tiny"
FORMAT = 1
PREFIXES = ("network.", "image.", "text.")


@dataclass(frozen=True)
class Trained:
    """The trained towers in evaluation mode, and the tokens that the text tower knows.

    `loss` is the training loss of the last batch; NaN for a scorer read from a file.
    """

    image_tower: ImageTower
    text_tower: TextTower
    vocabulary: Vocabulary
    loss: float = float("nan")


class KnownPairsLoss(SigLipLoss):  # type: ignore[misc]
    """SigLIP's sigmoid loss (Zhai et al., 2023) where several images may carry one text.

    `known` (B, B): text j is among the texts of image i. The original takes every pair off the
    diagonal as negative, which is false for a text that two images of a batch share.
    """

    known: Tensor

    def get_ground_truth(self, device: Any, dtype: Any, *_: Any, **__: Any) -> Tensor:
        """Return +1 for a known pair and -1 for the others."""
        return self.known.to(device=device, dtype=dtype) * 2 - 1


def train(
    image_features: Embeddings,
    captions: Captions,
    *,
    width: int,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    weight_decay: float,
    seed: int,
    threads: int | None = None,
    progress: bool = False,
) -> Trained:
    """Train both towers on `image_features` (n, F) and the texts of each image.

    `captions[i]` holds every text that is true of image i; each epoch draws one of them for each
    image. An image without texts is left out. The same arguments give the same bytes on one
    kind of CPU, and torch's global random state is left alone. Raises AssayError where fewer
    than two images have a text.
    """
    rows = [i for i, texts in enumerate(captions) if texts]
    if len(rows) < 2 or len(captions) != len(image_features):
        raise AssayError(
            f"siglip_tiny: {len(rows)} of {len(image_features)} training images have a caption; 2 are needed"
        )
    texts, known = _known_pairs([captions[i] for i in rows])
    words = vocabulary(texts)
    encoded = [words.encode(text) for text in texts]
    inputs = torch.from_numpy(np.asarray(image_features, dtype=np.float32)[rows])
    with threads_of(threads), seeded(seed), torch.enable_grad():
        towers = _towers(inputs, len(words), width)
        fit = _Fit(*towers, epochs * -(-len(rows) // batch_size), learning_rate, weight_decay)
        order = generator(seed, "siglip_tiny", "order")
        for _ in tqdm(range(epochs), desc="scorer training", unit="epoch", disable=not progress):
            for batch in np.array_split(order.permutation(len(rows)), -(-len(rows) // batch_size)):
                drawn = [int(order.choice(_row(known, i))) for i in batch]
                pairs = torch.from_numpy(known[batch][:, drawn].toarray())
                fit.step(inputs[batch], [encoded[text] for text in drawn], pairs)
    return Trained(towers[0].eval(), towers[1].eval(), words, fit.loss)


def _known_pairs(captions: Captions) -> tuple[list[str], "sparse.csr_array[Any]"]:
    """Return the distinct texts, and which image carries which, (n, T) bool."""
    numbers = {text: i for i, text in enumerate(dict.fromkeys(text for each in captions for text in each))}
    cells = [(i, numbers[text]) for i, each in enumerate(captions) for text in dict.fromkeys(each)]
    rows, columns = np.array(cells).T
    shape = (len(captions), len(numbers))
    return list(numbers), sparse.csr_array((np.ones(len(cells), dtype=bool), (rows, columns)), shape=shape)


def _row(known: "sparse.csr_array[Any]", i: int) -> Any:
    return known.indices[known.indptr[i] : known.indptr[i + 1]]


def _towers(inputs: Tensor, n_tokens: int, width: int) -> tuple[ImageTower, TextTower]:
    exact = inputs.double()
    deviation = exact.std(dim=0, correction=0)
    deviation[deviation == 0] = 1.0
    return ImageTower(exact.mean(dim=0).float(), deviation.float(), width), TextTower(n_tokens, width)


class _Fit:
    """The optimiser of both towers and of the loss's scale and bias."""

    def __init__(
        self,
        image_tower: ImageTower,
        text_tower: TextTower,
        steps: int,
        learning_rate: float,
        weight_decay: float,
    ) -> None:
        self.towers = image_tower.train(), text_tower.train()
        self.log_scale = nn.Parameter(torch.tensor(FIRST_SCALE).log())
        self.bias = nn.Parameter(torch.tensor(FIRST_BIAS))
        decayed = [*image_tower.parameters(), *text_tower.parameters()]
        groups: list[dict[str, Any]] = [
            {"params": decayed},
            {"params": [self.log_scale, self.bias], "weight_decay": 0.0},
        ]
        self.optimiser = torch.optim.AdamW(groups, lr=learning_rate, weight_decay=weight_decay)
        self.schedule = torch.optim.lr_scheduler.OneCycleLR(
            self.optimiser, max_lr=learning_rate, total_steps=max(steps, 2), pct_start=WARM_UP
        )
        self.objective = KnownPairsLoss()
        self.loss = float("nan")

    def step(self, inputs: Tensor, texts: Sequence[Sequence[int]], known: Tensor) -> None:
        """One gradient step on B images, one text each; `known` (B, B)."""
        image_tower, text_tower = self.towers
        self.objective.known = known
        loss = self.objective(image_tower(inputs), text_tower(texts), self.log_scale.exp(), self.bias)
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        self.schedule.step()
        self.loss = float(loss.detach())


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
        batch_size: int,
        workers: int,
        device: str,
        precision: str = "float32",
        tf32: bool = False,
        threads: int | None = None,
        progress: bool = False,
    ) -> Embeddings:
        """Return (N, d) float32, each row of length 1."""
        values = features(
            self.frozen,
            images,
            batch_size=batch_size,
            workers=workers,
            device=device,
            precision=precision,
            tf32=tf32,
            threads=threads,
            progress=progress,
        )
        return embed_features(self.trained, values, threads=threads)

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
        """Return (T, d) float32, each row of length 1; always computed on the CPU in float32."""
        encoded = [self.trained.vocabulary.encode(text) for text in texts]
        blocks = [np.empty((0, self.trained.text_tower.bag.embedding_dim), dtype=np.float32)]
        with threads_of(threads), torch.inference_mode():
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
