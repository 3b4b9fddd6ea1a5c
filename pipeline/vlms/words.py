"""Words as tokens: the tokenizer of a model that is trained here."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from pipeline.errors import AssayError

SPECIAL = ("<pad>", "<s>", "</s>", "<image>", "USER", "ASSISTANT", ":")
PAD, BEGIN, END, IMAGE, USER, ASSISTANT, COLON = range(len(SPECIAL))
PIECE = re.compile(r"\w+|[^\w\s]")


def pieces(text: str) -> list[str]:
    """Return the words and marks of a text, in order."""
    return PIECE.findall(text)


@dataclass(frozen=True)
class Words:
    """Ids of words: first the special tokens, then `known` in its order."""

    known: tuple[str, ...]
    ids: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if len(set(self.known)) != len(self.known) or set(self.known) & set(SPECIAL):
            raise AssayError("tiny_llava: its words must differ from each other and from the special tokens")
        if parted := [word for word in self.known if pieces(word) != [word]]:
            raise AssayError(f"tiny_llava: {parted[0]!r} is not one word or one mark")
        numbered = {word: i for i, word in enumerate(self.known, len(SPECIAL))}
        object.__setattr__(self, "ids", numbered)

    def __len__(self) -> int:
        return len(SPECIAL) + len(self.known)

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text's words; raises AssayError for a word that is not known."""
        parts = pieces(text)
        if unknown := [part for part in parts if part not in self.ids]:
            raise AssayError(
                f"question={text!r}: tiny_llava does not know {unknown[0]!r}; it knows "
                + ", ".join(self.known)
            )
        return [self.ids[part] for part in parts]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the words of ids, spaces between, special tokens left out."""
        return " ".join(self.known[i - len(SPECIAL)] for i in ids if i >= len(SPECIAL))
