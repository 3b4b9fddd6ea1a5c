"""One question about one image, and how samples are chosen and answers compared."""

import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image

from pipeline.datasets.stratified import held_out
from pipeline.errors import AssayError

MARKS = string.punctuation + string.whitespace


@dataclass(frozen=True)
class VqaSample:
    """A question about an image, with the answer that is expected.

    question: the whole text that is asked; answer: a word ("yes", "no") or the letter of a choice; image:
    when called, the image in RGB, upright, or AssayError naming file, row and column; choices: the texts of
    the letters, where the dataset lists them apart from the question; mask: when called, the (H, W) bool
    pixels of the objects that the question names, None where the dataset tells of none.
    """

    sample_id: str
    question: str
    answer: str
    category: str
    image: Callable[[], Image.Image]
    choices: tuple[str, ...] = ()
    mask: Callable[[], np.ndarray] | None = None


def select(samples: Sequence[VqaSample], n: int | None, seed: int) -> list[VqaSample]:
    """Return `n` of the samples, in their order, spread over the categories in proportion; None keeps all.

    Shares and ties are those of `held_out`: which samples are taken depends on their ids and the seed, not on
    their order. Raises AssayError for an `n` below 1 or above the number of samples.
    """
    if n is None:
        return list(samples)
    if not 1 <= n <= len(samples):
        raise AssayError(
            f"{n} samples are asked for and there are {len(samples)}; ask for 1 to {len(samples)}"
        )
    ids = [sample.sample_id for sample in samples]
    taken = held_out(ids, [sample.category for sample in samples], n / len(samples), seed)
    return [sample for sample in samples if sample.sample_id in taken]


def is_correct(answer: str, text: str) -> bool:
    """Tell whether a model's text gives the expected answer: its first word, without marks, in any case.

    "(C) a dog", "C." and "c" give "C"; a text without a word gives no answer and is wrong.
    """
    words = (word.strip(MARKS) for word in text.split())
    return next((word for word in words if word), "").casefold() == answer.casefold()
