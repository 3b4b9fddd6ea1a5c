import pandas as pd
import pytest

from pipeline.datasets.rows import Row
from pipeline.errors import AssayError
from pipeline.pairs.judging import judged, questions, wording

ROWS = [
    Row(2, {"pair_id": "x", "before": "a.png", "after": "b.png", "removed": "has_wing::red", "added": "hat"}),
    Row(3, {"pair_id": "y", "before": "a.png", "after": "c.png", "removed": "has_wing::red", "added": ""}),
]


def votes(*told):
    rows = [(image, text, bool(vote)) for image, text, each in told for vote in each]
    return pd.DataFrame(rows, columns=["image_id", "description", "rating"])


def test_people_are_asked_whether_each_changed_attribute_shows_after_the_edit():
    asked = questions(ROWS, before=False, texts={})
    assert asked[["pair_id", "image_id", "description", "expected"]].values.tolist() == [
        ["x", "b.png", "hat", "yes"],
        ["x", "b.png", "wing: red", "no"],
        ["y", "c.png", "wing: red", "no"],
    ]


def test_before_the_edit_the_answers_are_the_other_way_round():
    asked = questions(ROWS, before=True, texts={}).query("side == 'before'")
    assert asked[["image_id", "description", "expected"]].values.tolist() == [
        ["a.png", "hat", "no"],
        ["a.png", "wing: red", "yes"],
        ["a.png", "wing: red", "yes"],
    ]


def test_attributes_read_as_words_or_as_their_owner_words_them():
    assert wording("has_wing_color::light_blue") == "wing color: light blue"
    assert wording("stop sign") == "stop sign"
    asked = questions(ROWS, before=False, texts={"hat": "a hat on a head"})
    assert asked["description"].tolist()[0] == "a hat on a head"
    with pytest.raises(AssayError, match=r"'hat' and 'has_wing::red' are worded alike"):
        questions(ROWS, before=False, texts={"hat": "wing: red"})
    with pytest.raises(AssayError, match=r"word 'hta', which no pair adds or removes"):
        questions(ROWS, before=False, texts={"hta": "a hat"})


def test_a_pair_is_accepted_where_most_agree_with_every_expected_answer():
    asked = questions(ROWS, before=False, texts={})
    columns = judged(
        asked,
        votes(("b.png", "hat", (1, 1, 0)), ("b.png", "wing: red", (0, 0, 0)), ("c.png", "wing: red", (1,))),
    )
    assert columns == {
        "accepted": {"x": "yes", "y": "no"},
        "votes_after_added": {"x": "2/3"},
        "votes_after_removed": {"x": "0/3", "y": "1/1"},
    }


def test_a_tie_or_silence_decides_nothing_but_one_clear_no_does():
    asked = questions(ROWS, before=False, texts={})
    tie = votes(("b.png", "hat", (1, 0)), ("b.png", "wing: red", (0, 0)))
    assert judged(asked, tie)["accepted"] == {"x": "", "y": ""}
    against = votes(("b.png", "hat", (0,)))
    assert judged(asked, against)["accepted"] == {"x": "no", "y": ""}
