import random
import tempfile
from pathlib import Path

import pandas as pd
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from ingest_formats import (
    Answer,
    expected,
    found,
    ingest_files,
    input_cells,
    json_cells,
    long_rows,
    make_study,
    plain_cells,
    rows_of,
    shown_cells,
    table_bytes,
    tick_cells,
)

SPELLINGS = [
    ("true", "false"),
    ("True", "False"),
    ("TRUE", "FALSE"),
    ("1", "0"),
    ("1.0", "0.0"),
    ("yes", "no"),
    ("On", "off"),
]
KNOWN = {"true", "t", "yes", "y", "1", "1.0", "on", "false", "f", "no", "n", "0", "0.0", "off", "{}"}
STUDY = make_study(["nan", "a, b"], width=12, n_images=17)
TASKS = list(STUDY.tasks)


@st.composite
def batches(draw):
    """Answers with distinct workers a task, the family of their columns, and how to write the file."""
    workers = draw(st.lists(st.sampled_from(["w1", "w2", "w3"]), min_size=1, unique=True))
    answers = []
    for task in draw(st.lists(st.sampled_from(TASKS), min_size=1, unique=True)):
        for worker in workers:
            votes = [draw(st.booleans()) if key else None for key in STUDY.tasks[task]]
            answers.append(Answer(worker, task, tuple(votes)))
    family = draw(st.sampled_from(["ticks", "plain", "shown", "json", "json plain"]))
    yes, no = draw(st.sampled_from(SPELLINGS))
    first = draw(st.sampled_from([0, 1])) if family in ("ticks", "plain") else 0
    cells = {
        "ticks": lambda a: tick_cells(a, yes, no, first),
        "plain": lambda a: plain_cells(a, yes, draw(st.sampled_from([no, ""])), first),
        "shown": lambda a: plain_cells(a, yes, "") | shown_cells(a),
        "json": json_cells,
        "json plain": lambda a: json_cells(a, plain=True, shown=True),
    }[family]
    rows = rows_of(answers, cells, STUDY, inputs=False)
    rows = [row | input_cells(STUDY, a.task, first) for row, a in zip(rows, answers, strict=True)]
    return answers, rows, draw(st.randoms(use_true_random=False))


def written(rows: list[dict[str, str]], random: random.Random) -> bytes:
    names = list(dict.fromkeys(name for row in rows for name in row))
    random.shuffle(names)
    return table_bytes(
        rows,
        columns=names,
        delimiter=random.choice([",", "\t", ";"]),
        end=random.choice(["\n", "\r\n"]),
        encoding=random.choice(["utf-8", "utf-8-sig", "utf-16"]),
    )


def is_no_answer(word: str) -> bool:
    return bool(word.strip()) and "\0" not in word and word.strip().lower() not in KNOWN


def ingested(*files: bytes):
    with tempfile.TemporaryDirectory() as folder:
        return ingest_files(Path(folder), {f"f{i}": data for i, data in enumerate(files)}, STUDY)


@settings(max_examples=60)
@given(batches())
def test_the_way_a_batch_is_written_changes_no_rating(batch):
    answers, rows, random = batch
    random.shuffle(rows)
    result = ingested(written(rows, random))
    assert found(result) == expected(answers, STUDY)
    assert result.rejected.empty and result.counts.n_rows == len(rows)


@settings(max_examples=60)
@given(batches(), st.data())
def test_cut_and_doubled_rows_in_several_files_give_the_ratings_that_are_left(batch, data):
    answers, rows, random = batch
    kept = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, unique=True))
    doubled = data.draw(st.lists(st.sampled_from(kept)))
    some = [rows[k] for k in kept]
    files = written(some, random), written(some[:1] + [rows[k] for k in doubled], random)
    assume(files[0] != files[1])
    result = ingested(*files)
    assert found(result) == expected([answers[k] for k in kept], STUDY)
    assert result.counts.n_rows == len(kept) + 1 + len(doubled)
    repeats = result.rejected["reason"].str.startswith("the same assignment again")
    assert repeats.all()


@settings(max_examples=40)
@given(batches(), st.data())
def test_files_and_rows_may_come_in_any_order(batch, data):
    _, rows, random = batch
    statuses = st.sampled_from(["Submitted", "Approved", "Rejected"])
    times = st.sampled_from(["", "Thu Oct 09 08:00:00 UTC 2025", "Thu Oct 09 03:00:00 PDT 2025", "?"])
    changed = [
        row
        | {
            "AssignmentStatus": data.draw(statuses),
            "ApprovalTime": data.draw(times),
            "SubmitTime": data.draw(times),
            "WorkTimeInSeconds": data.draw(st.sampled_from(["", "5", "60"])),
            "AssignmentId": data.draw(st.sampled_from([row["AssignmentId"], "A1", "A2"])),
        }
        for row in rows
        for _ in range(2)
    ]
    one = ingested(written(changed, random))
    random.shuffle(changed)
    middle = random.randrange(len(changed) + 1)
    parts = [part for part in (changed[:middle], changed[middle:]) if part]
    other = ingested(*(written(part, random) for part in parts))
    content = one.ratings.columns.drop(["source", "row"])
    pd.testing.assert_frame_equal(one.ratings[content], other.ratings[content])
    assert one.counts == other.counts


@settings(max_examples=40)
@given(batches(), st.data())
def test_every_cell_that_is_no_answer_is_named(batch, data):
    answers, rows, random = batch
    numbers = {k: int(k[12:].removesuffix(".on")) for k in rows[0] if k.startswith("Answer.image")}
    assume(numbers)
    place = data.draw(st.integers(0, len(rows) - 1))
    column = data.draw(st.sampled_from(list(numbers)))
    word = data.draw(st.text(min_size=1).filter(is_no_answer))
    slot = numbers[column] - min(numbers.values())
    rows[place] = rows[place] | {column: word}
    result = ingested(written(rows, random))
    key = STUDY.tasks[answers[place].task][slot]
    wanted = expected(answers, STUDY)
    if key:
        given_input = STUDY.inputs[key]
        del wanted[answers[place].worker, given_input.image_id, given_input.description]
    assert found(result) == wanted
    assert len(result.rejected) == 1 and result.rejected["slot"].tolist() == [slot]


@settings(max_examples=30)
@given(batches())
def test_a_long_table_of_the_same_answers_gives_the_same_ratings(batch):
    answers, rows, random = batch
    table = long_rows(answers, STUDY)
    random.shuffle(table)
    content = ["worker", "image_id", "description", "rating", "assignment"]
    one, other = ingested(written(table, random)), ingested(written(rows, random))
    pd.testing.assert_frame_equal(one.ratings[content], other.ratings[content])
