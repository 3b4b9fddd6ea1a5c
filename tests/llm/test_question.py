"""What is sent, and the identity under which its answer is kept for good."""

import base64
from dataclasses import replace

import pytest

from pipeline.llm.question import Question

QUESTION = Question("vlm", "What is it?", ("a", "b"), ("c",), 128, 100, "max_tokens", 0.0, 0, None)


def test_an_identity_never_changes():
    """A change asks and pays for every kept answer again: give a new field the default None instead."""
    assert QUESTION.sha == "d61bbdca0273cb4ad0636e65044dc2933df1e3ad93c5da04f34e021d8cc0f65e"


@pytest.mark.parametrize(
    "change",
    [
        {"model": "other"},
        {"prompt": "What is it"},
        {"top": ("b", "a")},
        {"top": ("a",), "random": ("b", "c")},
        {"random": ()},
        {"cell": 127},
        {"max_tokens": 99},
        {"token_limit": "max_completion_tokens"},
        {"temperature": None},
        {"temperature": 0.5},
        {"seed": None},
        {"seed": 1},
        {"detail": "low"},
    ],
)
def test_whatever_changes_the_request_changes_the_identity(change):
    assert replace(QUESTION, **change).sha != QUESTION.sha


def test_a_new_layout_of_the_sheet_is_a_new_question(monkeypatch):
    before = QUESTION.sha
    monkeypatch.setattr("pipeline.llm.question.LAYOUT", 2)
    assert QUESTION.sha != before


def test_the_body_is_a_chat_completion_about_one_image():
    assert QUESTION.body(b"png") == {
        "model": "vlm",
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "What is it?"},
                    {
                        "type": "image_url",
                        "image_url": {"url": "data:image/png;base64," + base64.b64encode(b"png").decode()},
                    },
                ],
            }
        ],
        "max_tokens": 100,
        "temperature": 0.0,
        "seed": 0,
    }


def test_what_is_none_is_not_sent():
    short = replace(QUESTION, temperature=None, seed=None, token_limit="max_completion_tokens", detail="low")
    body = short.body(b"png")
    assert body.keys() == {"model", "messages", "max_completion_tokens"}
    assert body["messages"][0]["content"][1]["image_url"]["detail"] == "low"
