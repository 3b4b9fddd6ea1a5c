"""Train the small scorer's towers with the SigLIP loss; apart, because open_clip is slow to import."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from open_clip.loss import SigLipLoss
from scipy import sparse
from torch import Tensor, nn
from tqdm import tqdm

from pipeline.errors import AssayError
from pipeline.models.device import threads_of
from pipeline.models.weights import seeded
from pipeline.scorers.ngrams import vocabulary
from pipeline.scorers.scorer import Embeddings
from pipeline.scorers.towers import ImageTower, TextTower, Trained
from pipeline.seeds import generator

Captions = Sequence[Sequence[str]]
FIRST_SCALE, FIRST_BIAS = 10.0, -10.0
WARM_UP = 0.1


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
