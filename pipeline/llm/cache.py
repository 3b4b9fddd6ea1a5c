"""Answers that were paid for, kept for good: one file a question, outside every stage result."""

import json
from pathlib import Path
from typing import Any

from pipeline.errors import AssayError
from pipeline.files import read_json, replacing
from pipeline.llm.answer import read_answer
from pipeline.llm.question import Question, identity


class AnswerCache:
    """A folder of `<sha of the question>.json`: {"question": facts, "answer": chat completion}."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def prepare(self) -> None:
        """Raise AssayError where an answer could not be kept, before any is paid for."""
        try:
            with replacing(self.folder / "probe") as temporary:
                temporary.touch()
            (self.folder / "probe").unlink()
        except OSError as error:
            raise AssayError(
                f"{self.folder} cannot be written ({error.strerror}), so answers would be lost"
            ) from None

    def get(self, question: Question) -> dict[str, Any] | None:
        """Return the kept chat completion, None where there is none.

        Raises AssayError for a file that is damaged: asking again costs, so a person decides.
        """
        path = self._path(question)
        if not path.is_file():
            return None
        try:
            kept = read_json(path)
            if identity(kept["question"]) != question.sha:
                raise ValueError("its question is another")
            read_answer(kept["answer"])
        except (ValueError, KeyError, TypeError) as error:
            raise AssayError(f"{path} is damaged ({error}); delete it to ask and pay again") from None
        answer: dict[str, Any] = kept["answer"]
        return answer

    def put(self, question: Question, answer: dict[str, Any]) -> None:
        """Keep a chat completion, at once and atomically."""
        # As ASCII, so that half a surrogate pair in an answer loses nothing.
        text = json.dumps({"question": question.facts(), "answer": answer}, indent=1)
        with replacing(self._path(question)) as temporary:
            temporary.write_text(text + "\n", encoding="ascii")

    def _path(self, question: Question) -> Path:
        return self.folder / f"{question.sha}.json"
