"""What an endpoint answered, read from a chat completion."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Answer:
    """A chat completion's first choice: its text as it came, and what it took.

    `refusal` is what the model or its filter said instead of a text. None: the endpoint did not say.
    """

    text: str
    refusal: str
    model: str
    finish_reason: str
    prompt_tokens: int | None
    completion_tokens: int | None
    system_fingerprint: str


def read_answer(raw: Any) -> Answer:
    """Read a chat completion; ValueError says what of the protocol is missing."""
    choices = raw.get("choices") if isinstance(raw, dict) else None
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise ValueError("it has no list `choices`")
    message = choices[0].get("message")
    if not isinstance(message, dict):
        raise ValueError("its first choice has no `message`")
    usage = raw.get("usage") if isinstance(raw.get("usage"), dict) else {}
    return Answer(
        text=_whole(_text(message.get("content"))),
        refusal=_whole(message.get("refusal")),
        model=_whole(raw.get("model")),
        finish_reason=_whole(choices[0].get("finish_reason")),
        prompt_tokens=_count(usage.get("prompt_tokens")),
        completion_tokens=_count(usage.get("completion_tokens")),
        system_fingerprint=_whole(raw.get("system_fingerprint")),
    )


def filtered(model: str, message: str) -> dict[str, Any]:
    """Return the completion that stands for a question that the endpoint's filter turned away."""
    choice = {"message": {"content": None, "refusal": message}, "finish_reason": "content_filter"}
    return {"model": model, "choices": [choice], "usage": {"prompt_tokens": 0, "completion_tokens": 0}}


def _text(content: Any) -> str:
    """Return a message's content: a text, or a list of parts of which some are texts."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise ValueError("its message's `content` is neither a text nor a list")
    return "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))


def _whole(value: Any) -> str:
    """Return a value as text that UTF-8 can hold, blank for None."""
    return str(value or "").encode("utf-8", "replace").decode("utf-8")


def _count(value: Any) -> int | None:
    """Return a number of tokens; what is no whole number from 0 counts as not said."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
