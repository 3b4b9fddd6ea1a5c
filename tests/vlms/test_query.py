"""The question's tokens: all of its characters, none of the template's."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import AssayError
from pipeline.vlms.query import MARK, around, in_prompt, query_span, tokenised
from tests.vlms.conftest import tokenizer

BEFORE, AFTER = "<image>user\n", "<end>\nassistant"
TOKENS = tokenizer(["<pad>", "<end>", "<image>"])


@given(st.text(min_size=1, max_size=30).map(str.strip).filter(bool))
@settings(max_examples=150, deadline=None)
def test_the_span_holds_every_character_of_the_question_and_no_other(question: str) -> None:
    if any(special in question for special in ("<pad>", "<end>", "<image>")) or MARK in question:
        return
    prompt = BEFORE + question + AFTER
    ids, spans = tokenised(TOKENS, prompt)
    found, tokens = query_span(prompt, len(BEFORE), len(BEFORE) + len(question), spans)
    assert TOKENS.decode([ids[i] for i in found]) == question
    assert found == list(range(found[0], found[-1] + 1))
    assert len(tokens) == len(found)
    assert all(tokens)


def test_a_token_that_the_template_shares_is_refused() -> None:
    with pytest.raises(AssayError, match=r"'ab' stands for the template too"):
        query_span("xabx", 2, 3, [(0, 1), (1, 3), (3, 4)])
    found, tokens = query_span("x bx", 2, 3, [(0, 1), (1, 3), (3, 4)])
    assert (found, tokens) == ([1], ["b"])


def test_a_character_that_no_token_stands_for_is_named() -> None:
    with pytest.raises(AssayError, match="no token stands for 'c'"):
        query_span("abcd", 1, 3, [(0, 1), (1, 2), (3, 4)])


def test_a_question_without_tokens_is_refused() -> None:
    with pytest.raises(AssayError, match="no token of its own"):
        query_span("ab", 1, 1, [(0, 1), (1, 2)])
    with pytest.raises(AssayError, match="no token of its own"):
        query_span("abc", 1, 2, [(0, 1), (1, 1), (2, 3)])


def test_a_template_says_where_the_question_stands() -> None:
    assert around(lambda question: f"USER: <image>\n{question} ASSISTANT:") == (
        "USER: <image>\n",
        " ASSISTANT:",
    )
    for render in (lambda question: "none", lambda question: question * 2):
        with pytest.raises(AssayError, match="once is needed"):
            around(render)


def test_positions_move_by_what_the_placeholder_is_written_out_to() -> None:
    plain = [5, 9, 6, 7, 8]
    ids = np.array([5, 90, 9, 9, 9, 91, 6, 7, 8])
    assert in_prompt(ids, plain, [2, 3], 2).tolist() == [6, 7]
    with pytest.raises(AssayError, match="question before the image"):
        in_prompt(ids, plain, [0], 2)
    with pytest.raises(AssayError, match="differ from the tokenizer's"):
        in_prompt(np.array([5, 9, 9, 6, 0, 8]), plain, [2, 3], 2)


def test_a_tokenizer_without_offsets_is_refused() -> None:
    with pytest.raises(AssayError, match="gives no offsets"):
        tokenised(object(), "a")
