"""Ask one question a unit: those answered before are free, and every new answer is kept at once."""

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

from pipeline.errors import AssayError
from pipeline.llm.answer import Answer, read_answer
from pipeline.llm.cache import AnswerCache
from pipeline.llm.client import Client
from pipeline.llm.question import Question


def kept_answers(questions: Mapping[int, Question], cache: AnswerCache) -> dict[int, Answer]:
    """Return the answers, by unit, of the questions that were answered before."""
    found = {unit: cache.get(question) for unit, question in questions.items()}
    return {unit: read_answer(raw) for unit, raw in found.items() if raw is not None}


def ask(
    questions: Mapping[int, Question],
    draw: Callable[[int], bytes],
    client: Client,
    cache: AnswerCache,
    *,
    concurrency: int,
) -> dict[int, Answer]:
    """Ask every question, by unit, and keep each answer in the cache as soon as it is there.

    `draw` gives a unit's sheet as PNG; it is called by one thread at a time. The first failure ends the
    asking once what is under way has ended: AssayError names the unit and how many answers are kept.
    """
    drawing = threading.Lock()
    answers: dict[int, Answer] = {}

    def one(unit: int) -> None:
        with drawing:
            png = draw(unit)
        raw: dict[str, Any] = client.complete(questions[unit].body(png))
        cache.put(questions[unit], raw)
        answers[unit] = read_answer(raw)

    with ThreadPoolExecutor(max_workers=concurrency) as pool:
        unit_of = {pool.submit(one, unit): unit for unit in questions}
        try:
            for future in as_completed(unit_of):
                unit = unit_of[future]
                future.result()
        except BaseException as error:
            client.stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
            if not isinstance(error, AssayError):
                raise
            raise AssayError(
                f"unit {unit}: {error}. {len(answers)} of {len(questions)} new answers are kept in "
                f"{cache.folder}; the same command asks the rest"
            ) from None
    return answers
