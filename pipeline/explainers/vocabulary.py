"""The words a computed explanation may use."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import AssayError
from pipeline.explainers.text_file import read_text

LINE_END = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True)
class Vocabulary:
    """The distinct words of a list, by first appearance.

    Word i stood on line `places[i]` (from 0), so that `embeddings[list(places)]` shrinks what was computed a
    line together with the words. `n_blank` lines without a word and `n_repeated` repeats were dropped.
    """

    words: tuple[str, ...]
    places: tuple[int, ...]
    n_blank: int
    n_repeated: int

    def notes(self, method: str) -> list[str]:
        """Return what was dropped, as sentences for the report."""
        blank = f"{method}: {self.n_blank} blank lines of the vocabulary were left out"
        repeated = f"{method}: {self.n_repeated} repeated words of the vocabulary were counted once"
        return [blank] * (self.n_blank > 0) + [repeated] * (self.n_repeated > 0)


def distinct(lines: Sequence[str]) -> Vocabulary:
    """Return the words of a list, stripped, without blanks and repeats; case counts."""
    first: dict[str, int] = {}
    n_blank = 0
    for place, line in enumerate(lines):
        word = line.strip()
        n_blank += not word
        if word:
            first.setdefault(word, place)
    return Vocabulary(tuple(first), tuple(first.values()), n_blank, len(lines) - n_blank - len(first))


def read_vocabulary(path: Path, *, key: str = "explainer.vocabulary") -> Vocabulary:
    """Return the words of a file with one concept a line, in file order.

    Line ends may be LF, CRLF or CR; the last one ends a line and starts none. `nan`, `null`, `none` and
    `true` are words. Blank lines and repeats (CLIP-Dissect's own lists have some) are dropped and counted.
    Raises AssayError for a missing file, one that is not UTF-8, and one without a word.
    """
    lines = LINE_END.split(read_text(path, key))
    vocabulary = distinct(lines if lines[-1] else lines[:-1])
    if not vocabulary.words:
        raise AssayError(f"{path} has no word; write one concept a line, or set {key} to another file")
    return vocabulary
