"""Texts as word, word-pair and letter n-gram tokens, so that an unseen word still has parts."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

UNKNOWN = 0
LENGTHS = (3, 4, 5)
MAX_TOKENS = 50_000
WORD = re.compile(r"\w+")


def tokens(text: str) -> Iterator[str]:
    """Yield the tokens of one text: `<word>`, parts of it of 3 to 5 letters, `word word` pairs.

    Letter case does not matter; punctuation separates words. The marks < and > keep the start
    and the end of a word apart from its middle.
    """
    words = WORD.findall(text.casefold())
    for word in words:
        marked = f"<{word}>"
        yield marked
        for length in LENGTHS:
            if length < len(marked):
                yield from (marked[i : i + length] for i in range(len(marked) - length + 1))
    yield from (f"{first} {second}" for first, second in pairwise(words))


@dataclass(frozen=True)
class Vocabulary:
    """Known tokens; number i stands for `known[i - 1]`, and 0 for a text without any of them."""

    known: tuple[str, ...]

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {token: i for i, token in enumerate(self.known, start=1)}

    def __len__(self) -> int:
        return len(self.known) + 1

    def encode(self, text: str) -> list[int]:
        """Return the numbers of the known tokens in order, or [UNKNOWN] where there is none."""
        numbers = self._numbers
        return [numbers[token] for token in tokens(text) if token in numbers] or [UNKNOWN]


def vocabulary(texts: Sequence[str], max_tokens: int = MAX_TOKENS) -> Vocabulary:
    """Collect every word of the texts and its parts, and every pair that at least two texts share.

    Above `max_tokens` the tokens of most texts are kept; ties go to the alphabet.
    """
    counts = Counter(token for text in dict.fromkeys(texts) for token in set(tokens(text)))
    kept = [token for token, count in counts.items() if count > 1 or " " not in token]
    kept.sort(key=lambda token: (-counts[token], token))
    return Vocabulary(tuple(kept[:max_tokens]))
