"""Rendered scenes of coloured shapes with balanced yes/no questions: no download, masks known.

The layouts, pixels and masks are in `shape_scenes`, the questions in `shape_questions`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from PIL import Image

from pipeline.errors import AssayError
from pipeline.seeds import generator
from pipeline.vqa.sample import VqaSample
from pipeline.vqa.shape_questions import QUESTIONS, ask, can_ask, check_kinds, one_question
from pipeline.vqa.shape_scenes import Scenes, Split, images, object_masks, scenes

TRIES = 1000


@dataclass(frozen=True)
class SceneImage:
    """The image of one scene, rendered when called; the other fields are those of `scenes`."""

    index: int
    seed: int
    split: Split
    size: int
    fewest: int
    most: int
    noise: float = 0.0

    def scene(self) -> Scenes:
        """Return the scene, alone."""
        return scenes(
            1,
            seed=self.seed,
            split=self.split,
            size=self.size,
            first=self.index,
            fewest=self.fewest,
            most=self.most,
        )

    def __call__(self) -> Image.Image:
        """Return the pixels."""
        return Image.fromarray(images(self.scene(), self.noise)[0])


@dataclass(frozen=True)
class NamedMask:
    """The pixels (size, size) bool, when called, of every object that a question names."""

    source: SceneImage
    question: int

    def __call__(self) -> np.ndarray:
        """Return the mask; all False where nothing of what the question names is there."""
        scene, question = self.source.scene(), QUESTIONS[self.question]
        named = np.isin(scene.cells[0], (*question.first, *question.second))
        return np.asarray(object_masks(scene)[0, named].any(axis=0))


class TrainingBatch(NamedTuple):
    """B images with Q questions each.

    images: (B, size, size, 3) uint8; questions, answers: B lists of Q texts; cells: (B, 16) int64, what each
    patch of the 4 x 4 grid holds, 16 where nothing.
    """

    images: np.ndarray
    questions: list[list[str]]
    answers: list[list[str]]
    cells: np.ndarray


def read(
    *,
    n_samples: int,
    seed: int,
    split: Split = "test",
    size: int = 64,
    kinds: Sequence[str] = ("object",),
    fewest: int = 1,
    most: int = 4,
    noise: float = 8.0,
) -> list[VqaSample]:
    """Return samples about scenes of their own; the kinds take turns, and each has a yes, then a no.

    Sample i depends on the other settings and i alone, so more samples never change earlier ones. category:
    the kind. A mask is empty where nothing that the question names is there. Raises AssayError for settings
    that `scenes` or `ask` refuses, and for kinds that the scenes cannot answer both ways.
    """
    check_kinds(kinds)
    if n_samples < 1:
        raise AssayError(f"shapes_vqa: n_samples={n_samples}: there is nothing to ask; set 1 or more")
    stream = SceneImage(0, seed, split, size, fewest, most, noise)
    return [_sample(i, kinds[i // 2 % len(kinds)], i % 2 == 0, stream) for i in range(n_samples)]


def training_batch(
    step: int,
    n_images: int,
    n_questions: int,
    *,
    seed: int,
    size: int = 64,
    kinds: Sequence[str] = ("object",),
    fewest: int = 1,
    most: int = 4,
    noise: float = 8.0,
) -> TrainingBatch:
    """Return the batch of one training step: new scenes of the training split, several questions an image.

    Half of each kind's answers in the batch are yes. Equal arguments give equal batches. Raises AssayError as
    `scenes` and `ask` do.
    """
    drawn = scenes(
        n_images, seed=seed, split="train", size=size, first=step * n_images, fewest=fewest, most=most
    )
    asked = ask(drawn.cells, n_questions, kinds=kinds, rng=generator(seed, "shapes_vqa", "training", step))
    return TrainingBatch(
        images(drawn, noise),
        [[QUESTIONS[number].text for number in row] for row in asked.questions.tolist()],
        [["yes" if answer else "no" for answer in row] for row in asked.answers.tolist()],
        drawn.cells,
    )


def _sample(i: int, kind: str, answer: bool, stream: SceneImage) -> VqaSample:
    scene, source = _answerable(i, kind, stream)
    rng = generator(stream.seed, "shapes_vqa", "question", stream.split, kind, i)
    number = one_question(scene.cells[0], kind, answer, rng)
    return VqaSample(
        sample_id=f"{stream.split}-{stream.seed}-{i:05d}",
        question=QUESTIONS[number].text,
        answer="yes" if answer else "no",
        category=kind,
        image=source,
        mask=NamedMask(source, number),
    )


def _answerable(i: int, kind: str, stream: SceneImage) -> tuple[Scenes, SceneImage]:
    """Return the first of the TRIES scenes of sample i in which the kind has a yes and a no."""
    for index in range(i * TRIES, (i + 1) * TRIES):
        source = SceneImage(
            index, stream.seed, stream.split, stream.size, stream.fewest, stream.most, stream.noise
        )
        scene = source.scene()
        if can_ask(scene.cells, kind)[0]:
            return scene, source
    raise AssayError(
        f"shapes_vqa: none of {TRIES} scenes of {stream.fewest} to {stream.most} objects has a {kind!r} "
        "question with a yes and one with a no; set most=4, or leave the kind out"
    )
