import numpy as np
import pytest

from pipeline.crowd.truth import concept_truth
from pipeline.errors import AssayError

NAMES = ["Red", "circle", "large", "rock and roll", "black or white", "hot, dry"]
ATTRIBUTES = np.array(
    [[1, 1, 1, 0, 0, 0], [1, 0, 0, 1, 0, 1], [0, 1, 0, 0, 1, 0], [0, 0, 0, 1, 1, 1]], dtype=np.uint8
)


@pytest.mark.parametrize(
    ("description", "expected"),
    [
        ("red", [1, 1, 0, 0]),
        ("  RED ", [1, 1, 0, 0]),
        ("red and circle", [1, 0, 0, 0]),
        ("Red, Circle", [1, 0, 0, 0]),
        ("red, circle, large", [1, 0, 0, 0]),
        ("red, circle and large", [1, 0, 0, 0]),
        ("red, circle, and large", [1, 0, 0, 0]),
        ("red or circle", [1, 1, 1, 0]),
        ("red or circle or large", [1, 1, 1, 0]),
        ("rock and roll", [0, 1, 0, 1]),
        ("black or white", [0, 0, 1, 1]),
        ("hot, dry", [0, 1, 0, 1]),
        ("red or rock and roll", [1, 1, 0, 1]),
        ("red and black or white", [0, 0, 0, 0]),
    ],
)
def test_a_text_means_its_attributes(description, expected):
    truth = concept_truth(description, NAMES, ATTRIBUTES)
    assert truth.dtype == np.float64
    assert truth.tolist() == expected


@pytest.mark.parametrize(
    "description",
    [
        *("", " ", "blue", "red circle", "red and blue", "red or blue", "red,circle", "and", "red and"),
        *("redandcircle", "large, red or circle", "red and circle or large"),
    ],
)
def test_a_text_that_attributes_cannot_judge_has_no_truth(description):
    assert concept_truth(description, NAMES, ATTRIBUTES) is None


def test_of_equal_names_the_first_counts():
    assert concept_truth("a", ["A", "a"], np.array([[1, 0]])).tolist() == [1]


def test_names_and_columns_must_match():
    with pytest.raises(AssayError, match=r"attributes has shape \(4, 6\); expected \(N, 2\)"):
        concept_truth("red", ["red", "blue"], ATTRIBUTES)
