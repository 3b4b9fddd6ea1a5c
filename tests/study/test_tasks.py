"""Each distinct pair is asked once, in few and nearly equal tasks that no other text moves."""

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import AssayError
from pipeline.study.asked import input_id, task_id
from pipeline.study.frozen import slot_columns
from pipeline.study.tasks import count_tasks, make_inputs, make_tasks

ROWS = st.tuples(st.sampled_from(["a/m", "b/n"]), st.integers(0, 2), st.integers(0, 2), st.integers(0, 40))
NO_CHECKS = pd.DataFrame(columns=["image_id", "description", "answer"], dtype="str")


def draws_of(rows: list[tuple[str, int, str, str]]) -> pd.DataFrame:
    """Rows are part, unit, description, image; multiplicity is counted, the weight told by the image."""
    table = pd.DataFrame(rows, columns=["part", "unit", "description", "image_id"])
    table["method"] = table["part"].str.split("/").str[-1]
    table["weight"] = table["image_id"].str.len() / 4
    table["multiplicity"] = table.groupby(["part", "unit", "image_id"])["unit"].transform("size")
    return table


def many(
    n: int, description: str = "red", unit: int = 0, part: str = "a/m"
) -> list[tuple[str, int, str, str]]:
    return [(part, unit, description, f"image{i}") for i in range(n)]


def tasks_of(
    draws: pd.DataFrame, size: int = 15, checks: pd.DataFrame = NO_CHECKS, seed: int = 0
) -> pd.DataFrame:
    inputs = make_inputs(draws, checks)
    urls = {image: f"https://x/{image}.png" for image in inputs["image_id"]}
    return make_tasks(inputs, draws, urls, "pilot", size, seed)


def asked(tasks: pd.DataFrame) -> list[str]:
    cells = tasks[slot_columns(tasks, "input_id")].to_numpy().ravel()
    return [cell for cell in cells if cell]


@settings(deadline=None)
@given(st.lists(ROWS, min_size=1), st.integers(2, 20))
def test_every_distinct_pair_is_in_one_slot(rows: list[tuple[str, int, int, int]], size: int) -> None:
    draws = draws_of([(part, unit, f"text{text}", f"image{image}") for part, unit, text, image in rows])
    tasks = tasks_of(draws, size)
    pairs = {
        (image, text)
        for _, _, text, image in zip(
            *(draws[c] for c in ("part", "unit", "description", "image_id")), strict=True
        )
    }
    assert sorted(asked(tasks)) == sorted(input_id(*pair) for pair in pairs)
    assert len(tasks) == count_tasks(draws, size)
    assert tasks["task_id"].is_unique


def test_tasks_of_one_text_differ_in_length_by_one_at_most() -> None:
    tasks = tasks_of(draws_of(many(153)))
    lengths = (tasks[slot_columns(tasks, "input_id")] != "").sum(axis=1)
    assert len(tasks) == 11
    assert set(lengths) == {13, 14}


def test_a_task_has_one_text_and_the_addresses_of_its_inputs() -> None:
    tasks = tasks_of(draws_of(many(4) + many(4, "blue")), size=3)
    assert list(tasks["description"]) == ["red", "red", "blue", "blue"]
    row = tasks.iloc[0]
    image = next(f"image{i}" for i in range(4) if input_id(f"image{i}", "red") == row["input_id0"])
    assert row["image_url0"] == f"https://x/{image}.png"
    assert row["image_url2"] == row["input_id2"] == ""


def test_units_that_share_a_text_share_its_tasks_and_keep_their_own_weights() -> None:
    draws = draws_of(
        [("a/m", 3, "red", "x"), ("b/n", 7, "red", "x"), ("b/n", 7, "red", "x"), ("b/n", 7, "red", "long")]
    )
    (row,) = tasks_of(draws).to_dict("records")
    assert (row["unit"], row["method"], row["part"]) == ("3;7", "m;n", "a/m;b/n")
    slot = next(j for j in (0, 1) if row[f"input_id{j}"] == input_id("x", "red"))
    assert (row[f"weight{slot}"], row[f"multiplicity{slot}"]) == ("0.25;0.25", "1;2")
    assert (row[f"weight{1 - slot}"], row[f"multiplicity{1 - slot}"]) == (";1", ";1")


def test_the_order_of_inputs_is_not_the_order_of_draws_and_moves_with_the_seed_alone() -> None:
    draws = draws_of(many(60))
    tasks = tasks_of(draws)
    drawn = [input_id(f"image{i}", "red") for i in range(60)]
    assert asked(tasks) != drawn
    assert asked(tasks) == asked(tasks_of(draws.iloc[::-1]))
    assert asked(tasks) != asked(tasks_of(draws, seed=1))


def test_another_text_moves_no_task() -> None:
    alone = tasks_of(draws_of(many(40)))
    beside = tasks_of(draws_of(many(9, "blue") + many(40)))
    assert list(alone["task_id"]) == list(beside.loc[beside["description"] == "red", "task_id"])


def test_an_edited_task_has_another_id() -> None:
    assert task_id(["i1", "i2", ""]) != task_id(["i2", "i1", ""]) != task_id(["i1", "i2"])


def test_a_description_is_escaped_for_the_page_and_kept_as_it_is_beside() -> None:
    (row,) = tasks_of(draws_of(many(1, '<script>"a" & b'))).to_dict("records")
    assert row["description"] == '<script>"a" & b'
    assert row["description_html"] == "&lt;script&gt;&quot;a&quot; &amp; b"


def checks_of(*rows: tuple[str, str, str]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["image_id", "description", "answer"], dtype="str")


def test_each_task_of_a_text_with_checks_holds_one_and_is_no_longer_for_it() -> None:
    checks = checks_of(("known1", "red", "yes"), ("known2", "red", "no"))
    tasks = tasks_of(draws_of(many(30) + many(5, "blue")), size=15, checks=checks)
    known = {input_id("known1", "red"), input_id("known2", "red")}
    held = [
        [cell for cell in row if cell in known] for row in tasks[slot_columns(tasks, "input_id")].to_numpy()
    ]
    assert [len(cells) for cells in held] == [1, 1, 1, 0]
    assert {cell for cells in held for cell in cells} == known
    assert len(asked(tasks)) == 30 + 5 + 3


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (("k", "red", "maybe"), "line 2.*'maybe'; it must be yes or no"),
        (("k", "green", "yes"), "does not ask about this text"),
        (("image0", "red", "yes"), "was drawn with this text"),
    ],
)
def test_a_check_that_checks_nothing_is_refused(row: tuple[str, str, str], message: str) -> None:
    with pytest.raises(AssayError, match=message):
        make_inputs(draws_of(many(3)), checks_of(row))


def test_a_check_given_twice_is_refused() -> None:
    with pytest.raises(AssayError, match=r"line 3 .* is given twice"):
        make_inputs(draws_of(many(3)), checks_of(("k", "red", "yes"), ("k", "red", "no")))
