"""Which tokens of a prompt are the question's own."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pipeline.errors import AssayError
from pipeline.vlms.prepared import Ints

MARK = "\ue000"
"""A private-use character: no template and no question holds it."""


def around(render: Callable[[str], str]) -> tuple[str, str]:
    """Return what a chat template writes before and after the question.

    `render` maps a question to the prompt. Raises AssayError where the question does not stand in the prompt
    exactly once.
    """
    pieces = render(MARK).split(MARK)
    if len(pieces) != 2:
        raise AssayError(f"the chat template writes the question {len(pieces) - 1} times; once is needed")
    return pieces[0], pieces[1]


def tokenised(tokenizer: Any, prompt: str) -> tuple[list[int], list[tuple[int, int]]]:
    """Return the prompt's token ids and, for each, the characters that it stands for.

    Raises AssayError for a tokenizer that knows no offsets.
    """
    if not getattr(tokenizer, "is_fast", False):
        raise AssayError(
            f"{type(tokenizer).__name__} gives no offsets, so the question's tokens cannot be found; "
            "add tokenizer.json to the model's folder"
        )
    encoded = tokenizer(prompt, return_offsets_mapping=True)
    return list(encoded["input_ids"]), [tuple(span) for span in encoded["offset_mapping"]]


def query_span(
    prompt: str, start: int, end: int, spans: Sequence[tuple[int, int]]
) -> tuple[list[int], list[str]]:
    """Return the indices of the tokens that stand for prompt[start:end], and their texts.

    Every character of the question but white space must be covered, and no token may stand for characters of
    the template too, white space aside; else AssayError, as for a question without tokens.
    """
    question = prompt[start:end]
    found = [i for i, (a, b) in enumerate(spans) if a < b and a < end and b > start]
    if not found:
        raise AssayError(f"question={question!r} has no token of its own; ask something")
    covered = np.zeros(len(prompt), dtype=bool)
    for i in found:
        a, b = spans[i]
        covered[a:b] = True
        if (prompt[a : min(b, start)] + prompt[max(a, end) : b]).strip():
            raise AssayError(
                f"question={question!r}: the token {prompt[a:b]!r} stands for the template too; begin and "
                "end the question with a separate word or mark"
            )
    lost = [i for i in range(start, end) if not covered[i] and not prompt[i].isspace()]
    if lost:
        raise AssayError(
            f"question={question!r}: no token stands for {prompt[lost[0]]!r}; change the question"
        )
    return found, [prompt[slice(*spans[i])].strip() or prompt[slice(*spans[i])] for i in found]


def in_prompt(ids: Ints, plain: Sequence[int], found: Sequence[int], first_after_image: int) -> Ints:
    """Return the positions in `ids` (L,) of tokens `found` of `plain`, which has one image placeholder.

    `ids` is what the processor made: the placeholder is written out, so positions after it move. From
    `first_after_image` (an index of `plain`) on both must agree; else AssayError.
    """
    moved = len(ids) - len(plain)
    if min(found) < first_after_image:
        raise AssayError("the chat template writes the question before the image; images must come first")
    tail = np.asarray(plain[first_after_image:], dtype=np.int64)
    if moved < 0 or not np.array_equal(ids[first_after_image + moved :], tail):
        raise AssayError(
            "the processor's tokens after the image differ from the tokenizer's; check its files"
        )
    return np.asarray(found, dtype=np.int64) + moved
