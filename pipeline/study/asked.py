"""What a study asks: inputs (an image with a text) and the tasks that hold them."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Input:
    """An image and the text that people compare it with.

    `answer` is known for attention checks only; `url` is where the image is on the web ("": not known),
    which is no part of what is asked.
    """

    image_id: str
    description: str
    answer: bool | None = None
    url: str = field(default="", compare=False)


@dataclass(frozen=True)
class Asked:
    """All inputs by id, and each task's input ids by slot ("" for an empty slot)."""

    inputs: Mapping[str, Input]
    tasks: Mapping[str, tuple[str, ...]]


def input_id(image_id: str, description: str, checksum: str = "") -> str:
    """Return `i` and 12 hex digits: the same picture and text have the same id in every study.

    checksum is the picture's, so that another picture under the same image id is another input.
    """
    return "i" + _digest([image_id, description, *([checksum] if checksum else [])])


def task_id(inputs: Iterable[str]) -> str:
    """Return `t` and 12 hex digits over the input ids by slot: an edited task has another id."""
    return "t" + _digest(inputs)


def _digest(parts: Iterable[str]) -> str:
    # The lengths keep ("ab", "c") and ("a", "bc") apart, whatever the parts hold.
    text = "".join(f"{len(part)} {part}" for part in parts)
    return hashlib.sha256(text.encode()).hexdigest()[:12]
