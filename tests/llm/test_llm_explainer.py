"""From what a model wrote to a unit's description."""

import pandas as pd
import pytest

from pipeline.explainers.explanations import CONSTANT
from pipeline.explainers.llm import clean, explain


def responses(*rows: tuple[int, str, str, str]) -> pd.DataFrame:
    table = pd.DataFrame(rows, columns=["unit", "text", "refusal", "finish_reason"])
    return table.assign(model="vlm-1")


@pytest.mark.parametrize(
    ("response", "text"),
    [
        ("red circles", "red circles"),
        ("  Red circles.\n", "Red circles"),
        ('"red circles."', "red circles"),
        ('"Red circles".', "Red circles"),
        ("“red circles”", "red circles"),
        ("**red circles**", "red circles"),
        ("*`red`*", "red"),
        ("Description: red circles", "red circles"),
        ("**Description:** red circles", "red circles"),
        ("description:\nred\ncircles", "red circles"),
        ("The images show dots.\n\nFinal answer: red circles.", "red circles"),
        ("Answer: dots\nFinal Answer: red circles", "red circles"),
        ("<think>Are they blue?\nDescription: no.</think>\nred circles", "red circles"),
        ("<think>Are they blue? I", ""),
        ("a dog's 'red' hat", "a dog's 'red' hat"),
        ("'red' and 'blue'", "'red' and 'blue'"),
        ("Red circles. They are round.", "Red circles. They are round."),
        ("and so on...", "and so on..."),
        ("tins with a label: red", "tins with a label: red"),
        ("none", "none"),
        ("NaN", "NaN"),
        ("赤い丸", "赤い丸"),
        ('"', '"'),
        ("", ""),
    ],
)
def test_a_response_is_cleaned(response, text):
    assert clean(response) == text
    assert clean(text) == text


def test_the_response_stays_beside_the_text():
    result = explain(responses((4, '"Red circles."', "", "stop")), [4], set())
    (row,) = result.table.to_dict("records")
    assert row == {
        "method": "llm",
        "unit": 4,
        "description": "Red circles",
        "response": '"Red circles."',
        "model": "vlm-1",
        "finish_reason": "stop",
    }
    assert result.unexplained.empty and result.notes == ()


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (("", "", "stop"), "the answer is blank"),
        ((" \n", "", "stop"), "the answer is blank"),
        (("...", "", "stop"), "the answer is blank"),
        (("", "", "length"), "the answer was cut off before any text"),
        (("<think>So they", "", "length"), "the answer was cut off before any text"),
        (("", "", "content_filter"), "the endpoint's filter stopped the answer"),
        (("", "I will not", "stop"), "the model refused: I will not"),
        (("I'm sorry, but I can't help.", "", "stop"), "the model refused: I'm sorry, but I can't help"),
        (("I\u2019m unable to see", "", "stop"), "the model refused: I\u2019m unable to see"),
        (("I cannot tell", "", "stop"), "the model refused: I cannot tell"),
        (("As an AI, I see", "", "stop"), "the model refused: As an AI, I see"),
    ],
)
def test_an_answer_that_describes_nothing_has_a_reason(row, reason):
    result = explain(responses((0, *row)), [0], set())
    assert result.table.empty
    assert result.unexplained.to_dict("records") == [{"unit": 0, "reason": reason}]


@pytest.mark.parametrize("text", ["I can see red", "cannot opener", "sorry people", "iced tea"])
def test_words_of_a_refusal_in_a_description_are_no_refusal(text):
    assert explain(responses((0, text, "", "stop")), [0], set()).table["description"].tolist() == [text]


def test_a_text_that_was_cut_off_stands_and_is_counted():
    result = explain(responses((0, "red circles on a", "", "length"), (1, "b", "", "stop")), [0, 1], set())
    assert result.table["finish_reason"].tolist() == ["length", "stop"]
    assert result.notes == ("llm: 1 of 2 texts were cut off at explainer.max_tokens",)


def test_units_keep_the_order_of_selection_and_constant_ones_a_reason():
    rows = responses((1, "one", "", "stop"), (5, "five", "", "stop"))
    result = explain(rows, [5, 3, 1], {3, 7}, method="llm_small")
    assert result.table["unit"].tolist() == [5, 1]
    assert set(result.table["method"]) == {"llm_small"}
    assert result.unexplained.to_dict("records") == [{"unit": 3, "reason": CONSTANT}]


def test_a_unit_that_was_not_asked_is_constant_on_the_explainers_images():
    result = explain(responses((1, "one", "", "stop")), [0, 1])
    assert result.unexplained.to_dict("records") == [{"unit": 0, "reason": CONSTANT}]


def test_where_no_unit_was_asked_the_table_is_empty_and_typed():
    result = explain(responses(), [2], {2})
    assert result.table.empty
    assert list(result.table.columns) == [
        "method",
        "unit",
        "description",
        "response",
        "model",
        "finish_reason",
    ]
