"""Texts that a vision-language model wrote about sheets of a unit's images, cleaned."""

import re
from collections.abc import Collection, Sequence

import pandas as pd

from pipeline.explainers.explanations import CONSTANT, Explanations, assemble, require_selection

THOUGHT = re.compile(r"<(think|thinking)>.*?(</\1>|\Z)", re.DOTALL | re.IGNORECASE)
LABEL = re.compile(
    r"^[\W_]*(?:(?:the|final|short|best|my)\s+)*(?:description|answer|label|concept|caption|explanation|phrase)"
    r"[\s*_]*:[\s*_]*",
    re.IGNORECASE | re.MULTILINE,
)
REFUSED = re.compile(
    r"(?:i[^\w\s]?m|i am) (?:very )?(?:sorry|unable|not able)|sorry,|unfortunately, i\b|as an ai\b"
    r"|i (?:can[^\w\s]?t|cannot|can not|won[^\w\s]?t)\b",
    re.IGNORECASE,
)
WRAPPED = (
    ("“", "”"),
    ("\u2018", "\u2019"),
    ("«", "»"),
    *((mark, mark) for mark in ("**", "__", '"', "'", "`", "*")),
)
SHOWN = 80
CUT = "length"


def explain(
    responses: pd.DataFrame, units: Sequence[int], constant: Collection[int] = (), *, method: str = "llm"
) -> Explanations:
    """Give each unit the text that a model wrote about it, cleaned (`clean`).

    `responses` has a row a unit that was asked: unit, text, refusal, finish_reason, model. Added columns:
    response (the text as it came), model (as the endpoint named it), finish_reason (`length`: cut off at
    the token limit; the text stands). Unexplained, with the reason, are a unit that was not asked, because
    its activation is constant on the explainer's images (or on all: `constant`), and one whose answer is
    blank, was filtered or is a refusal.
    """
    units = require_selection(units)
    rows = responses.set_index("unit").to_dict("index")
    reasons = {unit: CONSTANT for unit in units if unit in constant or unit not in rows}
    described: list[dict[str, object]] = []
    for unit in (unit for unit in units if unit not in reasons):
        row = rows[unit]
        text = clean(row["text"])
        if reason := _unusable(text, row["refusal"], row["finish_reason"]):
            reasons[unit] = reason
            continue
        kept = {"response": row["text"], "model": row["model"], "finish_reason": row["finish_reason"]}
        described.append({"unit": unit, "description": text, **kept})
    columns = ["unit", "description", "response", "model", "finish_reason"]
    table = pd.DataFrame(described, columns=columns).astype({"unit": "int64"})
    return assemble(method, units, table, reasons, _notes(method, table))


def clean(response: str) -> str:
    r"""Return the description in a response, as one line.

    In this order: a block <think>...</think> goes; of lines that begin with a label ("Description:",
    "**Final answer**:") the last one is taken, from behind the label on; white space becomes single
    spaces; then, as long as anything changes, quotation marks or Markdown marks around the whole text
    go, and a full stop at the end of a text that holds no other sentence.
    """
    text = THOUGHT.sub(" ", response).strip()
    if labels := list(LABEL.finditer(text)):
        text = text[labels[-1].end() :]
    text = " ".join(text.split())
    while (shorter := _unwrapped(text)) != text:
        text = shorter
    return text


def _unwrapped(text: str) -> str:
    for left, right in WRAPPED:
        inner = text[len(left) : len(text) - len(right)]
        if len(text) > len(left + right) and text == left + inner + right and right not in inner:
            return inner.strip()
    ends = text.endswith(".") and not text.endswith("..") and not re.search(r"[.!?] ", text)
    return text[:-1].strip() if ends else text


def _unusable(text: str, refusal: str, finish_reason: str) -> str:
    """Return why an answer describes nothing, blank where it does describe."""
    if refusal:
        return f"the model refused: {_short(refusal)}"
    if finish_reason == "content_filter":
        return "the endpoint's filter stopped the answer"
    if REFUSED.match(text):
        return f"the model refused: {_short(text)}"
    if any(sign.isalnum() for sign in text):
        return ""
    return "the answer was cut off before any text" if finish_reason == CUT else "the answer is blank"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN else line[:SHOWN] + "..."


def _notes(method: str, table: pd.DataFrame) -> list[str]:
    cut = int((table["finish_reason"] == CUT).sum())
    return [f"{method}: {cut} of {len(table)} texts were cut off at explainer.max_tokens"] if cut else []
