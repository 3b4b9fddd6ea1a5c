"""Answers: read, kept, and asked for where they are not kept."""

import json
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from pipeline.errors import AssayError
from pipeline.llm.answer import read_answer
from pipeline.llm.asking import ask, kept_answers
from pipeline.llm.cache import AnswerCache
from pipeline.llm.client import Client
from pipeline.llm.cost import Meter, Prices
from pipeline.llm.endpoint import Endpoint
from pipeline.llm.grid import GAP, HEADING_HEIGHT, draw_sheet
from pipeline.llm.prompt import prompt_text, read_prompt
from pipeline.llm.question import Question
from tests.llm.stub_endpoint import Reply, error

KEY = "sk-very-secret-0123456789"
QUESTION = Question("vlm", "What is it?", ("a",), ("b",), 16, 20, "max_tokens", 0.0, 7, None)
QUESTIONS = {unit: replace(QUESTION, top=(f"image{unit}",)) for unit in range(6)}


def completion(content: object, **other: object) -> dict[str, object]:
    return {"choices": [{"message": {"content": content}, "finish_reason": "stop"}], **other}


def sheet(unit: int) -> bytes:
    return draw_sheet([Image.new("RGB", (4, 4), (unit, 0, 0))], [], 16)


def asked(stub, cache, units=range(6), concurrency=1, draw=sheet, max_retries=0):
    meter = Meter(Prices(0, 0, 0), 0, 0)
    client = Client(Endpoint(stub.base_url, KEY), "vlm", meter, timeout=5, max_retries=max_retries)
    questions = {unit: QUESTIONS[unit] for unit in units}
    try:
        return ask(questions, draw, client, cache, concurrency=concurrency)
    finally:
        client.close()


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("red", "red"),
        (None, ""),
        ([{"type": "text", "text": "red "}, {"type": "text", "text": "hat"}], "red hat"),
        ([{"type": "image"}, "odd"], ""),
        ("half \ud83d", "half ?"),
    ],
)
def test_contents_are_read_in_every_form(content, text):
    assert read_answer(completion(content)).text == text


def test_what_an_endpoint_does_not_say_is_none():
    answer = read_answer(completion("red", usage=None))
    assert (answer.prompt_tokens, answer.completion_tokens, answer.model) == (None, None, "")
    odd = read_answer(completion("red", usage={"prompt_tokens": "5", "completion_tokens": -1}))
    assert (odd.prompt_tokens, odd.completion_tokens) == (None, None)


def test_a_kept_answer_comes_back_as_it_was(tmp_path):
    cache = AnswerCache(tmp_path / "new" / "folder")
    assert cache.get(QUESTION) is None
    raw = completion("日本 \ud83d", usage={"prompt_tokens": 1})
    cache.put(QUESTION, raw)
    assert cache.get(QUESTION) == raw
    assert cache.get(replace(QUESTION, seed=8)) is None
    assert [path.name for path in cache.folder.iterdir()] == [f"{QUESTION.sha}.json"]


def test_a_kept_file_says_what_was_asked(tmp_path):
    AnswerCache(tmp_path).put(QUESTION, completion("red"))
    kept = json.loads((tmp_path / f"{QUESTION.sha}.json").read_text())
    assert kept["question"] == QUESTION.facts()
    assert kept["question"]["prompt"] == "What is it?"


def test_a_folder_that_cannot_hold_answers_is_told_before_anything_is_asked(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(AssayError, match=r"file/answers cannot be written .* would be lost"):
        AnswerCache(tmp_path / "file" / "answers").prepare()
    AnswerCache(tmp_path / "new" / "answers").prepare()
    assert list((tmp_path / "new" / "answers").iterdir()) == []


@pytest.mark.parametrize("content", ["", "{", "[]", '{"question": {}, "answer": {}}', '{"answer": {}}'])
def test_a_damaged_file_is_told_and_not_paid_for_again_unasked(tmp_path, content):
    path = tmp_path / f"{QUESTION.sha}.json"
    path.write_text(content)
    with pytest.raises(AssayError, match=r"is damaged .* delete it to ask and pay again"):
        AnswerCache(tmp_path).get(QUESTION)


def test_each_unit_gets_the_answer_to_its_own_sheet(stub, tmp_path):
    stub.answer = lambda request: f"red {request['png'].getpixel((8, GAP + HEADING_HEIGHT + 4))[0]}"
    answers = asked(stub, AnswerCache(tmp_path), concurrency=3)
    assert {unit: answer.text for unit, answer in answers.items()} == {u: f"red {u}" for u in range(6)}
    assert kept_answers(QUESTIONS, AnswerCache(tmp_path)) == answers


@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_server_that_dies_at_a_request_loses_none_that_were_answered(stub, tmp_path, concurrency):
    cache = AnswerCache(tmp_path)
    stub.script = [Reply(after=0), Reply(after=0), Reply(after=0), *[Reply(401, error("gone"))] * 9]
    with pytest.raises(AssayError, match=r"unit \d: .* HTTP 401: gone.* 3 of 6 new answers are kept in"):
        asked(stub, cache, concurrency=concurrency)
    kept = kept_answers(QUESTIONS, cache)
    assert len(kept) == 3
    before = len(stub.requests)
    stub.script = []
    rest = [unit for unit in QUESTIONS if unit not in kept]
    asked(stub, cache, rest, concurrency=concurrency)
    assert len(stub.requests) - before == 3
    assert kept_answers(QUESTIONS, cache).keys() == QUESTIONS.keys()


def test_an_answer_is_kept_before_the_next_question_is_asked(stub, tmp_path):
    seen: list[int] = []

    def answer(request: object) -> str:
        seen.append(len(list(tmp_path.glob("*.json"))))
        return "red"

    stub.answer = answer
    asked(stub, AnswerCache(tmp_path))
    assert seen == [0, 1, 2, 3, 4, 5]


def test_questions_are_asked_at_once_and_sheets_drawn_one_by_one(stub, tmp_path):
    stub.script = [Reply(after=0.2)] * 6
    lock = threading.Lock()

    def draw(unit: int) -> bytes:
        assert lock.acquire(blocking=False), "two sheets at once"
        try:
            return sheet(unit)
        finally:
            lock.release()

    asked(stub, AnswerCache(tmp_path), concurrency=3, draw=draw)
    assert 1 < stub.most_at_once <= 3


def test_an_image_that_cannot_be_read_is_told_with_its_unit(stub, tmp_path):
    def draw(unit: int) -> bytes:
        raise AssayError("image 'x' changed")

    with pytest.raises(AssayError, match=r"unit 0: image 'x' changed\. 0 of 6 new answers"):
        asked(stub, AnswerCache(tmp_path), draw=draw)
    assert stub.requests == []


def test_a_defect_keeps_its_own_error(stub, tmp_path):
    def draw(unit: int) -> bytes:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        asked(stub, AnswerCache(tmp_path), draw=draw)


def test_the_built_in_prompt_counts_its_images():
    both, alone = prompt_text(None, 9, 4), prompt_text(None, 3, 0)
    assert "the 9 images" in both and "RANDOM are 4 other images" in both
    assert "the 3 images" in alone and "RANDOM" not in alone
    assert "{" not in both + alone


def test_an_own_prompt_is_taken_as_it_is(tmp_path: Path):
    path = tmp_path / "prompt.txt"
    path.write_text('\n{n_top} and {n_random}, {} {"a": 1}\n', encoding="utf-8-sig")
    assert prompt_text(read_prompt(path), 2, 1) == '2 and 1, {} {"a": 1}'
    assert read_prompt(None) is None


def test_an_unknown_word_in_braces_is_named(tmp_path):
    path = tmp_path / "prompt.txt"
    path.write_text("{n_top} images of {unit}, {layer}")
    with pytest.raises(AssayError, match=r"prompt.txt holds \{unit\}, and only \{n_top\} and \{n_random\}"):
        read_prompt(path)


def test_a_blank_prompt_is_refused(tmp_path):
    path = tmp_path / "prompt.txt"
    path.write_text(" \n")
    with pytest.raises(AssayError, match=r"prompt.txt is blank; .* explainer.prompt=null"):
        read_prompt(path)
