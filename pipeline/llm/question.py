"""A question about one unit: what is sent, and the identity under which its answer is kept."""

import base64
import hashlib
from dataclasses import asdict, dataclass
from typing import Any, Literal

from pipeline.files import canonical
from pipeline.llm.grid import LAYOUT


@dataclass(frozen=True)
class Question:
    """All that decides what a model answers.

    top, random: SHA-256 of the shown images' files, in the order drawn; cell: pixels of a cell.
    A None is left out of the request. token_limit: the request's name for max_tokens.
    """

    model: str
    prompt: str
    top: tuple[str, ...]
    random: tuple[str, ...]
    cell: int
    max_tokens: int
    token_limit: Literal["max_tokens", "max_completion_tokens"]
    temperature: float | None
    seed: int | None
    detail: str | None

    def facts(self) -> dict[str, Any]:
        """Return what identifies the question as plain values, without what is None."""
        facts = asdict(self) | {"top": list(self.top), "random": list(self.random), "layout": LAYOUT}
        return {name: value for name, value in facts.items() if value is not None}

    @property
    def sha(self) -> str:
        """Hex SHA-256 of the facts: no host and no key, and no pixel that another Pillow might round."""
        return identity(self.facts())

    def body(self, png: bytes) -> dict[str, Any]:
        """Return the body of a chat completion about a sheet."""
        url = "data:image/png;base64," + base64.b64encode(png).decode("ascii")
        image = {"url": url} if self.detail is None else {"url": url, "detail": self.detail}
        content = [{"type": "text", "text": self.prompt}, {"type": "image_url", "image_url": image}]
        body = {
            "model": self.model,
            "messages": [{"role": "user", "content": content}],
            self.token_limit: self.max_tokens,
            "temperature": self.temperature,
            "seed": self.seed,
        }
        return {name: value for name, value in body.items() if value is not None}


def identity(facts: dict[str, Any]) -> str:
    """Return the hex SHA-256 of a question's facts as canonical JSON."""
    return hashlib.sha256(canonical(facts).encode()).hexdigest()
