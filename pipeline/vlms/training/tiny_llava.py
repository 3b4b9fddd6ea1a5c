"""Train the small LLaVA on images with several questions each."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pipeline.errors import AssayError
from pipeline.models.device import threads_of
from pipeline.models.weights import State, seeded
from pipeline.progress import tracked
from pipeline.vlms.adapter import stacked
from pipeline.vlms.prepared import Ints
from pipeline.vlms.tiny_llava import ANSWER_CUE, TinyShape, build, normalised, prompt_start, save
from pipeline.vlms.words import END, PAD, Words
from pipeline.vqa.shape_questions import WORDS
from pipeline.vqa.shape_scenes import N_OBJECTS
from pipeline.vqa.shapes_vqa import training_batch

Batch = tuple[np.ndarray[Any, Any], Sequence[Sequence[str]], Sequence[Sequence[str]], Ints]
Draw = Callable[[int, int, int], Batch]
IGNORED = -100
WARM_UP = 50
COOL_DOWN = 0.3
"""The last share of the steps, in which the learning rate falls to zero in a line."""
CLIP = 1.0
RECENT = 0.95
KNOWN, SHORTEST_LESSON = 0.95, 50
"""A lesson ends when the running mean of right answers reaches the first, after so many steps at least."""
MOST_OBJECTS = (1, 2, 3, 4)
"""Lessons of scenes with at most so many objects. With four from the start it may never learn more than that
the colour or the shape that is asked for is somewhere: .82 right."""


@dataclass(frozen=True)
class Fitted:
    """Trained weights; loss and accuracy are running means over the last lesson's last answers."""

    state: State
    loss: float
    accuracy: float


def fit(
    folder: Path,
    *,
    kinds: Sequence[str],
    n_steps: int,
    n_images: int,
    n_questions: int,
    learning_rate: float,
    weight_decay: float,
    seed: int,
    threads: int,
) -> dict[str, float]:
    """Train on questions of these kinds about rendered scenes, save into `folder`, return loss and accuracy.

    The scenes are those of the training split of shapes_vqa, with more and more objects. Raises AssayError
    as `train` does.
    """
    lessons = [partial(training_batch, seed=seed, kinds=kinds, most=most) for most in MOST_OBJECTS]
    shape = TinyShape(words=tuple(WORDS))
    fitted = train(
        lessons,
        shape,
        n_patch_classes=N_OBJECTS + 1,
        n_steps=n_steps,
        n_images=n_images,
        n_questions=n_questions,
        learning_rate=learning_rate,
        weight_decay=weight_decay,
        seed=seed,
        threads=threads,
    )
    save(folder, shape, fitted.state)
    return {"loss": fitted.loss, "training_accuracy": fitted.accuracy}


def train(
    lessons: Sequence[Draw],
    shape: TinyShape,
    *,
    n_patch_classes: int,
    n_steps: int,
    n_images: int = 32,
    n_questions: int = 8,
    learning_rate: float = 2e-3,
    weight_decay: float = 0.01,
    seed: int = 0,
    threads: int | None = None,
) -> Fitted:
    """Train on one lesson after another: new images of `draw(step, n_images, n_questions)` at every step.

    The next lesson begins when this one is known, and the last one when the learning rate begins to fall at
    the latest. A batch is images (B, H, W, 3) uint8, B lists of Q questions, B lists of Q one-word answers,
    and the class of each patch (B, m) int64 below `n_patch_classes`. The questions of an image follow each
    other in one sequence, so that the image is encoded once; a linear probe on the visual tokens learns the
    patch classes beside, and is thrown away. Equal arguments give equal weights on one kind of CPU; torch's
    global random state is left alone. Raises AssayError for an unknown word, an answer of more than one, and
    no step.
    """
    if n_steps < 1:
        raise AssayError(f"vlm.n_steps={n_steps} trains nothing; use 1 or more")
    with threads_of(threads), seeded(seed), torch.enable_grad():
        fit = _Fit(shape, n_patch_classes, n_steps, learning_rate, weight_decay)
        lesson, last = 0, len(lessons) - 1
        for step in tracked(range(n_steps), "training steps"):
            cools = n_steps - step <= COOL_DOWN * n_steps
            if lesson < last and (cools or fit.knows):
                lesson = last if cools else lesson + 1
                fit.begin_lesson()
            images, questions, answers, labels = lessons[lesson](step, n_images, n_questions)
            ids, targets = packed(fit.words, shape.n_patches, questions, answers)
            fit.step(normalised(images), ids, targets, torch.from_numpy(np.asarray(labels, dtype=np.int64)))
    return Fitted({name: value.detach() for name, value in fit.module.state_dict().items()}, *fit.recent)


def packed(
    words: Words, n_patches: int, questions: Sequence[Sequence[str]], answers: Sequence[Sequence[str]]
) -> tuple[Tensor, Tensor]:
    """Return ids (B, L) and targets (B, L): at each position the next id where it is to be learnt, else -100.

    What is learnt is each answer and the end after it. Shorter rows are filled with pads at their end, which
    nothing before them sees.
    """
    known: dict[tuple[str, str], list[int]] = {}
    rows = []
    for asked, told in zip(questions, answers, strict=True):
        row = prompt_start(n_patches)
        for pair in zip(asked, told, strict=True):
            if pair not in known:
                known[pair] = _turn(words, *pair)
            row += known[pair]
        rows.append(row)
    ids = np.full((len(rows), max(map(len, rows), default=0)), PAD, dtype=np.int64)
    for row, filled in zip(rows, ids, strict=True):
        filled[: len(row)] = row
    targets = np.full_like(ids, IGNORED)
    image, turn = np.nonzero(ids == END)
    for back in (1, 0):
        targets[image, turn - back - 1] = ids[image, turn - back]
    return torch.from_numpy(ids), torch.from_numpy(targets)


def _turn(words: Words, question: str, answer: str) -> list[int]:
    told = words.encode(answer)
    if len(told) != 1:
        raise AssayError(f"tiny_llava: the answer {answer!r} to {question!r} is not one word")
    return [*words.encode(question), *ANSWER_CUE, *told, END]


class _Fit:
    """Model, probe and optimiser."""

    def __init__(
        self, shape: TinyShape, n_classes: int, n_steps: int, learning_rate: float, weight_decay: float
    ) -> None:
        self.module = build(shape, "sdpa").train()
        self.words = Words(shape.words)
        self.probe = nn.Linear(shape.width, n_classes)
        self.parameters = [*self.module.parameters(), *self.probe.parameters()]
        self.optimiser = torch.optim.AdamW(
            self.parameters, lr=learning_rate, weight_decay=weight_decay, betas=(0.9, 0.98)
        )
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimiser, lambda i: _rate(i, n_steps))
        self.begin_lesson()

    def begin_lesson(self) -> None:
        """Forget how well the answers were known."""
        self.recent: tuple[float, float] = (float("nan"), float("nan"))
        self.n_in_lesson = 0

    @property
    def knows(self) -> bool:
        """Whether the answers of this lesson are known."""
        return self.n_in_lesson >= SHORTEST_LESSON and self.recent[1] >= KNOWN

    def step(self, pixels: Tensor, ids: Tensor, targets: Tensor, labels: Tensor) -> None:
        """One gradient step: the answers' cross-entropy and the probe's."""
        features = stacked(self.module.model.get_image_features(pixels).pooler_output)
        embedded = self.module.get_input_embeddings()(ids)
        start = len(prompt_start(0))
        inputs = torch.cat([embedded[:, :start], features, embedded[:, start + features.shape[1] :]], dim=1)
        hidden = self.module.model.language_model(inputs_embeds=inputs, use_cache=False).last_hidden_state
        wanted = targets != IGNORED
        logits, truth = self.module.lm_head(hidden[wanted]), targets[wanted]
        loss = F.cross_entropy(logits, truth)
        probed = F.cross_entropy(self.probe(features).flatten(0, 1), labels.flatten())
        self.optimiser.zero_grad()
        (loss + probed).backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.parameters, CLIP)
        self.optimiser.step()
        self.schedule.step()
        answers = truth != END
        right = (logits.detach().argmax(-1) == truth)[answers].double().mean()
        self._remember(float(loss.detach()), float(right))

    def _remember(self, loss: float, accuracy: float) -> None:
        self.n_in_lesson += 1
        if np.isnan(self.recent[0]):
            self.recent = (loss, accuracy)
        else:
            self.recent = (
                RECENT * self.recent[0] + (1 - RECENT) * loss,
                RECENT * self.recent[1] + (1 - RECENT) * accuracy,
            )


def _rate(step: int, n_steps: int) -> float:
    """Return the factor of the learning rate: up in a line, level, down in a line."""
    return min(1.0, (step + 1) / WARM_UP, (n_steps - step) / (COOL_DOWN * n_steps))
