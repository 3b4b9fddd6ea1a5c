"""The traps of public results files, in the order in which the crowd specification lists them."""

import json
import random
from html import escape

import pandas as pd
import pytest
from ingest_formats import (
    ANSWERS,
    FIXED,
    FORMATS,
    STUDY,
    TASKS,
    Answer,
    answer,
    expected,
    fixed_cells,
    found,
    input_cells,
    json_cells,
    label_studio,
    long_rows,
    make_study,
    mturk_csv,
    plain_cells,
    reasons,
    rows_of,
    shown_cells,
    table_bytes,
    text_of,
    tick_cells,
    turkle_csv,
)

from pipeline.errors import AssayError
from pipeline.ingest.ingesting import ingest
from pipeline.study.asked import Asked, Input

ONE = ANSWERS[:1]


def row_of(given=ANSWERS[0], cells=tick_cells, **changes: str) -> dict[str, str]:
    return fixed_cells(given) | input_cells(STUDY, given.task) | cells(given) | changes


# 1. Marks, line ends, quotes, entities


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_marks_and_line_ends_do_not_matter(ingested, encoding, end):
    assert found(ingested(mturk_csv(ANSWERS, end=end, encoding=encoding))) == expected(ANSWERS)


def test_quoted_commas_newlines_and_doubled_quotes_are_text(ingested):
    texts = ['a "b", c', "two\nlines", '""', "=1+1", "x,y;z\tw", "'"]
    study = make_study(texts, width=2, n_images=2)
    given = [answer("w", task, "yn", study) for task in study.tasks]
    for cells in (tick_cells, json_cells):
        data = mturk_csv(given, lambda a, c=cells: {"Input.note": 'a "note",\nof two'} | c(a), study)
        assert found(ingested(data, study=study)) == expected(given, study)


def test_entities_are_read_only_where_the_raw_text_does_not_match(ingested):
    study = make_study(["salt &amp; pepper", "cat & <dog>"], width=2, n_images=2)
    given = [answer("w", task, "yn", study) for task in study.tasks]
    rows = rows_of(given, tick_cells, study)
    rows[1]["Input.description"] = escape(rows[1]["Input.description"])
    for row in rows:
        del row["Input.task_id"]
        for j in range(2):
            row[f"Input.input_id{j}"] = study.inputs[row[f"Input.input_id{j}"]].image_id
    assert found(ingested(table_bytes(rows), study=study)) == expected(given, study)


@pytest.mark.parametrize("image", ["a &amp; b.png", "a & b.png"])
def test_entities_of_image_ids_are_read_in_the_same_way(ingested, image):
    study = Asked({"i": Input(image, "red")}, {})
    row = fixed_cells(answer("w", TASKS[0], "yyyy")) | {"Answer.image0.on": "true"}
    for written in (image, escape(image)):
        data = table_bytes([row | {"Input.input_id0": written, "Input.description": "red"}])
        assert found(ingested(data, study=study)) == {("w", image, "red"): True}


def test_rows_are_numbered_by_the_line_on_which_they_start(ingested):
    rows = [row_of(given) | {"RequesterFeedback": "one\ntwo\nthree"} for given in ANSWERS[:3]]
    assert set(ingested(table_bytes(rows)).ratings["row"]) == {2, 5, 8}


# 2. Order of slots


@pytest.mark.parametrize("cells", [tick_cells, plain_cells, json_cells])
@pytest.mark.parametrize("first", [0, 1])
def test_slots_go_by_number_and_not_by_letters(ingested, cells, first):
    study = make_study(["red"], width=15, n_images=15)
    task = next(iter(study.tasks))
    given = answer("w", task, "nyynynnnynyyyny", study)
    row = fixed_cells(given) | input_cells(study, task, first)
    row |= cells(given) if cells is json_cells else cells(given, first=first)
    if cells is json_cells and first:
        row["Answer.taskAnswers"] = json.dumps(
            [{f"image{j}": {"on": vote} for j, vote in enumerate(given.votes, 1)}]
        )
    shuffled = random.Random(1).sample(sorted(row), len(row))
    for columns in (sorted(row), shuffled):
        data = table_bytes([row], columns=columns)
        assert found(ingested(data, study=study)) == expected([given], study)


def test_answers_from_one_beside_inputs_from_zero_are_told_by_the_last_number(ingested):
    rows = [row_of(cells=lambda a: tick_cells(a, first=1))]
    assert found(ingested(table_bytes(rows))) == expected(ONE)


NUMBERED = "cannot tell whether slots count from 0 or 1"


def ticked(given, first=0, ending="", **more: str) -> dict[str, str]:
    """The columns that MTurk makes where a box answers only if somebody ticked it."""
    return {f"Answer.image{j}{ending}": "on" for j, vote in enumerate(given.votes, first) if vote} | more


def boxes(given, first=0) -> dict[str, str]:
    """The columns of a page whose boxes are those of the task's images."""
    filled = [vote for vote in given.votes if vote is not None]
    return {f"Answer.image{j}.on": str(vote).lower() for j, vote in enumerate(filled, first)}


def test_the_first_plain_column_may_be_absent_because_nobody_ticked_it_where_shown_has_it(ingested):
    given = [answer("1", TASKS[0], "nyny"), answer("2", TASKS[0], "nnyn")]
    rows = rows_of(given, lambda a: ticked(a) | shown_cells(a))
    assert "Answer.image0" not in rows[0]
    assert found(ingested(table_bytes(rows))) == expected(given)


@pytest.mark.parametrize("votes", ["nynn", "nyyn", "nyny"])
@pytest.mark.parametrize("cells", [ticked, lambda a: json_cells(a, plain=True)])
def test_plain_columns_that_fit_both_ways_of_counting_are_rejected_with_the_fix(ingested, votes, cells):
    given = [answer("1", TASKS[0], votes), answer("2", TASKS[0], "nnnn")]
    result = ingested(table_bytes(rows_of(given, cells)))
    assert result.ratings.empty and result.counts.n_rows == 2
    assert {reason.split(": ")[0] for reason in reasons(result)} == {NUMBERED}
    assert (
        "add an empty column, Answer.image0 if they count from 0 and Answer.image4 if from 1"
        in (reasons(result)[0])
    )
    assert NUMBERED in result.summary


@pytest.mark.parametrize("column,first", [("Answer.image0", 0), ("Answer.image4", 1)])
def test_the_fix_for_plain_columns_tells_how_they_count(ingested, column, first):
    given = [answer("1", TASKS[0], "ynny" if first else "nnyn"), answer("2", TASKS[0], "nnyn")]
    rows = rows_of(given, lambda a: {column: ""} | ticked(a, first))
    assert found(ingested(table_bytes(rows))) == expected(given)


@pytest.mark.parametrize("inputs", [True, False])
@pytest.mark.parametrize("cells", [boxes, ticked])
def test_a_short_task_counted_from_one_is_read_as_such(ingested, inputs, cells):
    given = [answer("1", TASKS[1], "ny"), answer("2", TASKS[1], "nn")]
    rows = rows_of(given, lambda a: cells(a, 1), inputs=inputs)
    assert "Answer.image3" not in rows[0] and "Answer.image3.on" not in rows[0]
    hits = {f"H-{TASKS[1]}": TASKS[1]}
    assert found(ingested(table_bytes(rows), hits=hits)) == expected(given)


@pytest.mark.parametrize("cells", [boxes, lambda a, first: ticked(a, first) | {"Answer.image2": ""}])
def test_a_short_file_whose_inputs_count_from_one_too_is_read_as_such(ingested, cells):
    given = answer("1", TASKS[1], "yn")
    for known in (True, False):
        row = fixed_cells(given) | input_cells(STUDY, TASKS[1], 1) | cells(given, 1)
        row = {name: cell for name, cell in row.items() if name[-1] not in "34"}
        if not known:
            del row["Input.task_id"]
        assert found(ingested(table_bytes([row]))) == expected([given])


def test_plain_columns_count_as_inputs_that_start_at_one(ingested):
    given = answer("1", TASKS[0], "nyyn")
    row = fixed_cells(given) | input_cells(STUDY, TASKS[0], 1) | ticked(given, 1)
    assert found(ingested(table_bytes([row]))) == expected([given])


@pytest.mark.parametrize("inputs", [True, False])
def test_what_was_shown_tells_how_plain_columns_count(ingested, inputs):
    hits = {f"H-{task}": task for task in TASKS}
    given = [answer("1", TASKS[0], "nyyn"), answer("2", TASKS[0], "nnyn")]
    for first, shown in ((0, "0,1,2,3"), (1, "1,2,3,4")):
        rows = rows_of(given, lambda a, f=first: ticked(a, f), inputs=inputs)
        rows = [row | {"Answer.shown": shown} for row in rows]
        assert found(ingested(table_bytes(rows), hits=hits)) == expected(given)


def test_boxes_whose_first_column_was_lost_are_no_boxes_counted_from_one(ingested):
    rows = rows_of(ANSWERS[:3])
    for row in rows:
        del row["Answer.image0.on"]
    result = ingested(table_bytes(rows))
    assert result.ratings.empty
    assert "Answer.image0.on if they count from 0 and Answer.image4.on if from 1" in reasons(result)[0]


def test_a_narrow_file_whose_inputs_alone_count_from_one_shifts_no_answer(ingested):
    given = answer("1", TASKS[1], "yn")
    row = fixed_cells(given) | input_cells(STUDY, TASKS[1], 1) | boxes(given)
    row = {name: cell for name, cell in row.items() if name[-1] not in "34" and name != "Input.task_id"}
    assert found(ingested(table_bytes([row]))) == expected([given])


def test_a_lost_first_column_of_inputs_shifts_no_answer(ingested):
    rows = [{name: cell for name, cell in row.items() if name not in LOST} for row in rows_of(ANSWERS[:3])]
    votes = found(ingested(table_bytes(rows)))
    assert len(votes) == 9 and votes.items() <= expected(ANSWERS[:3]).items()


LOST = ("Input.task_id", "Input.input_id0", "Input.image_url0")


# 3. Spellings, and what blank means


@pytest.mark.parametrize(
    "yes,no",
    [
        ("true", "false"),
        ("True", "FALSE"),
        ("TRUE", "False"),
        ("1", "0"),
        ("1.0", "0.0"),
        ("yes", "no"),
        (" on ", "off"),
        ("Y", "n"),
        ("on", "{}"),
    ],
)
@pytest.mark.parametrize("cells", [tick_cells, plain_cells])
def test_every_spelling_of_yes_and_no_is_read_in_both_families(ingested, cells, yes, no):
    assert found(ingested(mturk_csv(ANSWERS, lambda a: cells(a, yes, no)))) == expected(ANSWERS)


@pytest.mark.parametrize("word", ["maybe", "2", "nan", "None", "ja", "tru", "-1", "[]", "truefalse", "NA"])
@pytest.mark.parametrize("column", ["Answer.image1.on", "Answer.image1"])
def test_an_unknown_spelling_is_rejected_by_name_and_never_guessed(ingested, column, word):
    cells = tick_cells if column.endswith(".on") else plain_cells
    result = ingested(table_bytes([row_of(cells=cells) | {column: word}]))
    assert len(result.ratings) == 3
    assert reasons(result) == [f"neither yes nor no: {column} is {word!r}"]
    assert result.rejected["slot"].tolist() == [1] and result.rejected["image_id"].tolist() == ["img1"]


def test_blank_is_missing_in_a_tick_column_and_no_in_a_plain_one(ingested):
    ticks = ingested(table_bytes([row_of() | {"Answer.image1.on": ""}]))
    assert len(ticks.ratings) == 3 and reasons(ticks) == ["no answer: Answer.image1.on is blank"]
    plain = ingested(table_bytes([row_of(cells=plain_cells) | {"Answer.image1": ""}]))
    assert found(plain) == expected(ONE)


def test_an_absent_tick_column_is_missing(ingested):
    row = row_of()
    del row["Answer.image2.on"]
    result = ingested(table_bytes([row]))
    assert len(result.ratings) == 3 and reasons(result) == ["no answer: Answer.image2.on is blank"]


def test_an_absent_plain_column_is_no_where_another_of_the_family_is_there(ingested):
    row = row_of(cells=plain_cells)
    del row["Answer.image1"], row["Answer.image2"]
    assert found(ingested(table_bytes([row]))) == expected(ONE)


def test_without_any_plain_column_only_what_was_shown_is_no(ingested):
    given = answer("w", TASKS[0], "nnnn")
    row = row_of(given, cells=shown_cells)
    assert found(ingested(table_bytes([row]))) == expected([given])
    partly = ingested(table_bytes([row | {"Answer.shown": "0,1,3"}]))
    assert len(partly.ratings) == 3 and reasons(partly) == ["not shown: Answer.shown does not list 2"]
    nowhere = ingested(table_bytes([row_of(given, cells=lambda a: {})]))
    assert nowhere.ratings.empty and reasons(nowhere)[0] == "no answer: no column Answer.image0"


def test_a_tick_on_an_image_that_was_not_shown_is_no_answer(ingested):
    row = row_of(cells=plain_cells) | {"Answer.shown": "1,2,3"}
    result = ingested(table_bytes([row]))
    assert len(result.ratings) == 3 and reasons(result) == ["not shown: Answer.shown does not list 0"]


@pytest.mark.parametrize("cell", ["{}", "[{}]", " [ {} ] "])
def test_an_empty_object_of_answers_says_no_to_everything(ingested, cell):
    given = answer("w", TASKS[0], "nnnn")
    row = row_of(given, cells=lambda a: {"Answer.taskAnswers": cell})
    assert found(ingested(table_bytes([row]))) == expected([given])


@pytest.mark.parametrize("cell", ["[]", "null", "3", "[1]", "[{},{}]", "{", '[{"image0": ', "yes"])
def test_answers_that_cannot_be_read_are_rejected_and_said_so(ingested, cell):
    rows = [row_of(cells=json_cells), row_of(ANSWERS[1], cells=lambda a: {"Answer.taskAnswers": cell})]
    result = ingested(table_bytes(rows))
    assert found(result) == expected(ONE)
    assert all(reason.startswith("unreadable taskAnswers") for reason in reasons(result))


def test_two_columns_for_one_image_must_agree(ingested):
    row = row_of() | plain_cells(ANSWERS[0], no="false")
    assert found(ingested(table_bytes([row]))) == expected(ONE)
    result = ingested(table_bytes([row | {"Answer.image0": "false"}]))
    assert reasons(result) == ["two columns that differ: Answer.image0.on and Answer.image0"]


def test_flattened_columns_beside_task_answers_must_agree(ingested):
    row = row_of() | json_cells(ANSWERS[0])
    assert found(ingested(table_bytes([row]))) == expected(ONE)
    result = ingested(table_bytes([row | {"Answer.image0.on": "false"}]))
    assert set(reasons(result)) == {"unreadable taskAnswers: it differs from the column Answer.image0.on"}


def test_a_field_called_nothing_says_nothing(ingested):
    row = row_of() | {"Answer.nothing": "{}", "task": "x", "Answer.image1.on": ""}
    assert len(ingested(table_bytes([row])).ratings) == 3


def test_batches_of_both_families_in_one_file_are_told_apart_by_row(ingested):
    rows = [row_of(ANSWERS[0], tick_cells), row_of(ANSWERS[1], plain_cells)]
    assert found(ingested(table_bytes(rows))) == expected(ANSWERS[:2])


def test_an_answer_where_no_image_is_is_named(ingested):
    row = row_of(ANSWERS[3])
    assert ingested(table_bytes([row])).rejected.empty
    result = ingested(table_bytes([row | {"Answer.image3.on": "true"}]))
    assert reasons(result) == ["an answer where no image is: Answer.image3"]
    assert found(result) == expected(ANSWERS[3:4])


# 4. All no


def test_a_row_of_all_no_is_kept_and_an_idler_is_pointed_at(ingested):
    study = make_study([f"text {k}" for k in range(5)], width=4, n_images=4)
    given = [answer(w, t, "yyyn", study) for w in ("a", "b") for t in study.tasks]
    given += [answer("idle", t, "nnnn", study) for t in study.tasks]
    result = ingested(mturk_csv(given, study=study), study=study)
    assert found(result) == expected(given, study)
    flagged = {facts.worker: facts.flags for facts in result.workers if facts.flags}
    assert list(flagged) == ["idle"] and flagged["idle"][0].startswith("idling? 5 of 5 tasks all no")
    assert (
        "idling? 5 of 5 tasks all no" in result.summary and "5 of 15 assignments are all no" in result.summary
    )


def test_all_no_where_everybody_says_no_is_no_idling(ingested):
    study = make_study([f"text {k}" for k in range(9)], width=4, n_images=4)
    given = [answer(w, t, "nnnn", study) for w in "abc" for t in study.tasks]
    result = ingested(mturk_csv(given, study=study), study=study)
    assert len(result.ratings) == 108 and not any(facts.flags for facts in result.workers)


# 5. Rejected work


@pytest.mark.parametrize(
    "status,rejection,used",
    [
        ("Approved", "", True),
        ("Submitted", "", True),
        ("Rejected", "", False),
        ("rejected", "", False),
        ("Approved", "Thu Oct 09 08:00:00 UTC 2025", False),
        ("Submitted", "yesterday", False),
        ("", "", True),
    ],
)
def test_status_or_a_time_of_rejection_rejects(ingested, status, rejection, used):
    given = answer("w", TASKS[0], "ynny", status=status, rejection=rejection)
    result = ingested(mturk_csv([given]))
    assert len(result.ratings) == 4 * used
    assert set(reasons(result)) == (set() if used else {"the assignment was rejected"})


def test_the_upload_columns_are_no_status(ingested):
    rows = [row_of() | {"Approve": "", "Reject": "too fast"}, row_of(ANSWERS[1]) | {"Approve": "x"}]
    result = ingested(table_bytes(rows))
    assert found(result) == expected(ANSWERS[:2]) and set(result.ratings["status"]) == {"Submitted"}


def test_rows_may_end_before_the_upload_columns(ingested):
    lines = mturk_csv(ANSWERS).decode().splitlines()
    short = "\n".join([lines[0], *(line.removesuffix(',"",""') for line in lines[1:])])
    assert short.count(',"",""') < mturk_csv(ANSWERS).decode().count(',"",""')
    assert found(ingested(short.encode())) == expected(ANSWERS)


APPROVED_AT_9 = {"status": "Approved", "approval": "Thu Oct 09 09:00:00 UTC 2025"}
REJECTED_AT_8 = {"status": "Rejected", "rejection": "Thu Oct 09 08:00:00 UTC 2025"}
REJECTED_AT_9 = {"status": "Rejected", "rejection": "Thu Oct 09 09:00:00 UTC 2025"}
# 09:30 in New York is 13:30 UTC: the text that sorts first is the later time.
REJECTED_IN_NEW_YORK = {"status": "Rejected", "rejection": "Thu Oct 09 09:30:00 EDT 2025"}
APPROVED_AT_10 = {"status": "Approved", "approval": "Thu Oct 09 10:00:00 UTC 2025"}


@pytest.mark.parametrize(
    "one,other,used",
    [
        ({"status": "Submitted"}, APPROVED_AT_9, True),
        ({"status": "Submitted"}, REJECTED_AT_8, False),
        (REJECTED_AT_8, APPROVED_AT_9, True),
        (REJECTED_AT_9, APPROVED_AT_9, False),
        (REJECTED_AT_9, APPROVED_AT_9 | {"status": "approved"}, False),
        (REJECTED_IN_NEW_YORK, APPROVED_AT_10, False),
        (REJECTED_AT_8 | {"rejection": "who knows"}, APPROVED_AT_9, False),
        (REJECTED_AT_8, APPROVED_AT_9 | {"approval": "who knows"}, False),
        ({"status": "Rejected"}, APPROVED_AT_9, False),
    ],
)
def test_the_last_decision_on_an_assignment_counts_whatever_the_order(ingested, one, other, used):
    copies = [mturk_csv([answer("w", TASKS[0], "ynny", **more)]) for more in (one, other)]
    for files in (copies, copies[::-1]):
        result = ingested(*files)
        assert len(result.ratings) == 4 * used
        assert result.counts.n_rows == 2 and result.counts.n_rows_used == used
        if used:
            assert set(result.ratings["status"]) == {other["status"]}


def test_of_copies_decided_alike_the_earlier_submission_is_kept_whatever_the_order(ingested):
    early = answer("w", TASKS[0], "ynny", submitted="Thu Oct 09 07:00:00 UTC 2025")
    late = answer("w", TASKS[0], "ynny", submitted="Thu Oct 09 07:00:01 UTC 2025")
    for order in ([early, late], [late, early]):
        times = ingested(mturk_csv(order)).ratings["submitted"]
        assert set(times) == {pd.Timestamp("2025-10-09 07:00:00", tz="UTC")}


# 6. Twice


def test_the_same_assignment_in_two_files_counts_once(ingested):
    other = mturk_csv(ANSWERS, lambda a: {"Answer.comment": ""} | tick_cells(a))
    result = ingested(FORMATS["mturk ticks"], other)
    assert found(result) == expected(ANSWERS)
    assert result.counts.n_rows == 12 and result.counts.n_rows_used == 6
    assert set(reasons(result)) == {f"the same assignment again: file0, row {n}" for n in range(2, 8)}


def test_copies_of_an_assignment_that_differ_are_all_rejected(ingested):
    changed = answer("11", TASKS[0], "nnny")
    result = ingested(mturk_csv(ONE), mturk_csv([changed]))
    assert len(result.ratings) == 3 and "img0" not in set(result.ratings["image_id"])
    differ = [reason for reason in reasons(result) if "differ" in reason]
    assert differ == ["two copies of this assignment differ: file0, row 2; file1, row 2"] * 2


def test_a_worker_counts_once_an_input_the_first_time(ingested):
    task = next(iter(STUDY.tasks))
    other_task = (*STUDY.tasks[task][:2], "", "")
    study = Asked(STUDY.inputs, {**STUDY.tasks, "t00000000000f": other_task})
    late = answer("w", task, "yyyy", study, submitted="Thu Oct 09 08:00:00 UTC 2025")
    early = answer("w", "t00000000000f", "nn", study, submitted="Thu Oct 09 03:00:00 EDT 2025")
    rows = rows_of([late, early], study=study)
    for order in (rows, rows[::-1]):
        result = ingested(table_bytes(order), study=study)
        assert found(result) == expected([late], study) | expected([early], study)
        again = f"the same worker on the same input again: kept is assignment '{early.identity}'"
        assert reasons(result) == [again] * 2
        assert result.workers[0].flags == ("2 repeats",)


def test_without_times_the_smallest_assignment_is_kept(ingested):
    given = [
        answer("w", TASKS[0], "yyyy", assignment="B", submitted=""),
        answer("w", TASKS[0], "nnnn", assignment="A", submitted=""),
    ]
    assert found(ingested(mturk_csv(given))) == expected(given[1:])
    timed = answer("w", TASKS[0], "yyyy", assignment="B")
    assert found(ingested(mturk_csv([timed, given[1]]))) == expected([timed])


# 7. Fewer or more ratings than planned


def test_inputs_are_counted_by_how_many_rated_them(ingested):
    given = [answer(w, TASKS[0], "ynyn") for w in "abcd"] + [answer(w, TASKS[1], "yn") for w in "abc"]
    given += [answer("a", TASKS[2], "ynyn")]
    result = ingested(mturk_csv(given))
    lines = [" ".join(line.split()) for line in result.summary.splitlines()]
    assert len(result.ratings) == 26
    for line in ("inputs asked 12", "rated by 3 2", "by fewer 4", "by more 4", "by nobody yet 2"):
        assert line in lines


# 8. Several batches


def test_batches_with_other_columns_go_together(ingested):
    files = [
        mturk_csv(ANSWERS[:2]),
        mturk_csv(ANSWERS[2:4], plain_cells, delimiter="\t"),
        mturk_csv(ANSWERS[4:5], json_cells, header=False),
        json.dumps(label_studio(ANSWERS[5:])).encode(),
    ]
    result = ingested(*files)
    assert found(result) == expected(ANSWERS) and [facts.n_rows for facts in result.files] == [2, 2, 1, 1]


def test_the_fixed_columns_are_those_of_batch_results():
    assert len(FIXED) == 27 and FIXED[0] == "HITId" and FIXED[26] == "Last7DaysApprovalRate"
    assert [FIXED[n] for n in (14, 15, 16, 18, 20, 21, 23)] == [
        "AssignmentId",
        "WorkerId",
        "AssignmentStatus",
        "SubmitTime",
        "ApprovalTime",
        "RejectionTime",
        "WorkTimeInSeconds",
    ]


# 9, 10. Dates, percent signs, dollars


@pytest.mark.parametrize(
    "text,time",
    [
        ("Thu Oct 09 07:30:20 UTC 2025", "2025-10-09 07:30:20"),
        ("Fri Oct 09 07:30:20 PDT 2020", "2020-10-09 14:30:20"),
        ("Wed Jan  1 23:30:20 PST 2020", "2020-01-02 07:30:20"),
        ("2025-10-09T07:30:20Z", "2025-10-09 07:30:20"),
        ("2025-10-09 07:30:20.5+02:00", "2025-10-09 05:30:20.5"),
        ("2025-10-09T07:30:20", "2025-10-09 07:30:20"),
        ("1760000000", "2025-10-09 08:53:20"),
        ("1760000000.25", "2025-10-09 08:53:20.25"),
        ("1760000000000", "2025-10-09 08:53:20"),
        ("Thu Oct 09 07:30:20 XYZ 2025", None),
        ("Thu Foo 09 07:30:20 UTC 2025", None),
        ("Thu Oct 39 07:30:20 UTC 2025", None),
        ("Thu Dec 31 23:30:20 PST 9999", None),
        ("10/9/2025 7:30", None),
        ("", None),
    ],
)
def test_times_are_read_as_utc_or_are_unknown(ingested, text, time):
    result = ingested(mturk_csv([answer("w", TASKS[0], "ynny", submitted=text)]))
    assert len(result.ratings) == 4
    first = result.ratings["submitted"].iloc[0]
    assert pd.isna(first) if time is None else first == pd.Timestamp(time, tz="UTC")


def test_percent_signs_dollars_and_odd_durations_are_no_trouble(ingested):
    known = {"61": [61.0] * 4, "61.5": [61.5] * 4, "1 min": [], "-3": [], "inf": [], "": []}
    for seconds, values in known.items():
        row = row_of() | {"LifetimeApprovalRate": "100% (5/5)", "Reward": "$0.06"}
        result = ingested(table_bytes([row | {"WorkTimeInSeconds": seconds}]))
        assert found(result) == expected(ONE)
        assert result.ratings["seconds"].dropna().tolist() == values


# 11. Turkle


def test_turkle_results_are_known_and_need_no_status(ingested):
    result = ingested(turkle_csv(ANSWERS))
    assert found(result) == expected(ANSWERS)
    assert result.files[0].format == "Turkle results, CSV" and set(result.ratings["status"]) == {""}


# 12. Without Input columns


def test_rows_without_inputs_are_rejoined_by_their_hit(ingested):
    data = table_bytes(rows_of(ANSWERS, inputs=False))
    hits = {f"H-{task}": task for task in TASKS[:2]}
    result = ingested(data, hits=hits)
    assert found(result) == expected([a for a in ANSWERS if a.task in TASKS[:2]])
    assert set(reasons(result)) == {
        f"no Input columns, and no task of this study has this HITId: 'H-{task}'" for task in TASKS[2:]
    }


def test_without_a_task_id_the_inputs_are_enough(ingested):
    rows = [{k: v for k, v in row.items() if k != "Input.task_id"} for row in rows_of(ANSWERS)]
    result = ingested(table_bytes(rows))
    assert found(result) == expected(ANSWERS) and set(result.ratings["task"]) == {""}


def test_with_a_task_id_its_inputs_need_not_be_in_the_file(ingested):
    rows = [{k: v for k, v in r.items() if not k.startswith("Input.in")} for r in rows_of(ANSWERS)]
    assert found(ingested(table_bytes(rows))) == expected(ANSWERS)


def test_answers_whose_column_of_inputs_is_absent_are_not_lost_silently(ingested):
    row = {k: v for k, v in row_of().items() if k not in ("Input.task_id", "Input.input_id2")}
    result = ingested(table_bytes([row]))
    assert len(result.ratings) == 3 and reasons(result) == ["an answer where no image is: Answer.image2"]


# 13. An input that the study never had


def test_an_unknown_input_is_rejected_by_name(ingested):
    row = {k: v for k, v in row_of().items() if k != "Input.task_id"} | {"Input.input_id1": "i123"}
    result = ingested(table_bytes([row]))
    assert len(result.ratings) == 3 and reasons(result) == ["input not in the study: 'i123'"]
    assert result.rejected["slot"].tolist() == [1]


# 14. Edited after upload


@pytest.mark.parametrize(
    "column,value,words",
    [
        ("Input.task_id", "t000000000000", "task not in the study: 't000000000000'"),
        ("Input.input_id1", STUDY.tasks[TASKS[0]][2], "the task was edited after upload: slot 1"),
        ("Input.input_id1", "", "the task was edited after upload: slot 1 is empty"),
        ("Input.description", "green", "the task was edited after upload: its description is 'green'"),
    ],
)
def test_an_edited_task_is_rejected_by_name(ingested, column, value, words):
    result = ingested(table_bytes([row_of() | {column: value}, row_of(ANSWERS[1])]))
    assert found(result) == expected(ANSWERS[1:2])
    assert len(result.rejected) == 4 and all(reason.startswith(words) for reason in reasons(result))


def test_swapped_inputs_are_seen_by_the_task_id(ingested):
    row = row_of()
    row["Input.input_id0"], row["Input.input_id1"] = row["Input.input_id1"], row["Input.input_id0"]
    assert ingested(table_bytes([row])).ratings.empty


# Attention checks


def test_attention_checks_are_no_ratings_and_each_share_right_is_told(ingested):
    study = make_study(["red"], width=4, n_images=4, checks={("img1", "red"): True, ("img3", "red"): False})
    task = next(iter(study.tasks))
    given = [answer("good", task, "yyyn", study), answer("bad", task, "ynyn", study)]
    result = ingested(mturk_csv(given, study=study), study=study)
    assert set(result.ratings["image_id"]) == {"img0", "img2"}
    assert sorted(reasons(result)) == ["attention check: right"] * 3 + ["attention check: wrong"]
    checks = {facts.worker: (facts.n_right, facts.n_checks) for facts in result.workers}
    assert checks == {"good": (2, 2), "bad": (1, 2)} and "1 of 2" in result.summary
    assert "inputs asked 2" in " ".join(result.summary.split())


def test_a_task_of_attention_checks_alone_is_a_row_rejected_whole(ingested):
    study = make_study(["red"], width=1, n_images=1, checks={("img0", "red"): True})
    result = ingested(mturk_csv([answer("w", next(iter(study.tasks)), "y", study)], study=study), study=study)
    assert (result.counts.n_rows, result.counts.n_rows_used, result.counts.n_read) == (1, 0, 1)


# Rows that cannot be read


def test_a_row_that_was_cut_off_is_rejected_by_its_line(ingested):
    text = mturk_csv(ANSWERS[:2]).decode().rstrip("\n")
    result = ingested(text.rsplit(',"', 4)[0].encode())
    assert found(result) == expected(ONE)
    assert set(result.rejected["row"]) == {3}
    assert all(reason.startswith("another number of cells than columns") for reason in reasons(result))


def test_a_row_without_a_worker_is_rejected_by_name(ingested):
    result = ingested(table_bytes([row_of() | {"WorkerId": ""}, row_of(ANSWERS[1])]))
    assert found(result) == expected(ANSWERS[1:2])
    assert set(reasons(result)) == {"no worker: WorkerId is blank or absent"}


def test_blank_lines_are_no_rows(ingested):
    lines = mturk_csv(ANSWERS).split(b"\n")
    padded = b"\n\n".join(lines) + b"\n" + b'""' + b',""' * 40 + b"\n,,,\n"
    result = ingested(padded)
    assert found(result) == expected(ANSWERS) and result.counts.n_rows == 6


def test_one_text_in_two_inputs_of_a_foreign_study_counts_once(ingested):
    study = Asked({"1": Input("a", "red"), "2": Input("a", "red")}, {"t": ("1", "2")})
    given = answer("w", "t", "yy", study)
    result = ingested(mturk_csv([given], study=study), study=study)
    assert len(result.ratings) == 1 and reasons(result) == ["twice in one task: kept is slot 0"]


def test_the_text_of_a_task_is_one():
    assert {text_of(STUDY, task) for task in TASKS} == {"red", 'a "big", <blue> & grey cat'}


def test_no_file_may_be_called_like_another_and_be_mistaken_for_it(tmp_path):
    paths = []
    for place, given in enumerate((ANSWERS[:1], ANSWERS[1:2], ANSWERS[1:2])):
        paths.append(tmp_path / str(place) / "batch.csv")
        paths[-1].parent.mkdir()
        paths[-1].write_bytes(mturk_csv(given))
    result = ingest(paths, STUDY, n_raters=3)
    assert found(result) == expected(ANSWERS[:2])
    assert len(set(result.ratings["source"])) == 2
    assert all(source.endswith("-batch.csv") for source in result.ratings["source"])
    assert result.notes == ("files with the same bytes are read once",)


def test_a_doubled_header_column_is_refused(ingested):
    data = table_bytes([row_of()]).replace(b'"Answer.image1.on"', b'"Answer.image0.on"')
    with pytest.raises(AssayError, match=r"two columns are named 'Answer\.image0\.on'"):
        ingested(data)


def test_long_rows_of_rejected_status_are_rejected(ingested):
    rows = [row | {"status": "Rejected"} for row in long_rows(ONE)]
    assert set(reasons(ingested(table_bytes(rows)))) == {"the assignment was rejected"}


# Beyond the list


@pytest.mark.parametrize("reverse", [False, True])
def test_an_answer_that_was_corrected_later_replaces_the_first(ingested, reverse):
    first = answer("11", TASKS[0], "ynny", submitted="2025-10-09T07:30:20Z")
    then = answer("11", TASKS[0], "nnny", submitted="2025-10-09T07:45:00Z")
    files = [mturk_csv([first]), mturk_csv([then])]
    result = ingested(*(reversed(files) if reverse else files))
    assert found(result) == expected([then])
    assert sum(reason.startswith("corrected later") for reason in reasons(result)) == 1


@pytest.mark.parametrize(
    ("status", "approval", "used"),
    [
        ("Approved", "2025-10-11T07:30:20Z", True),
        ("Approved", "2025-10-09T07:30:20Z", False),
        ("Approved", "", False),
        ("Rejected", "2025-10-11T07:30:20Z", False),
    ],
)
def test_a_rejection_that_was_overridden_is_none(ingested, status, approval, used):
    given = answer("w", TASKS[0], "ynny", status=status, approval=approval, rejection="2025-10-10T07:30:20Z")
    result = ingested(mturk_csv([given]))
    assert bool(len(result.ratings)) == used
    assert len(result.ratings) + len(result.rejected) == 4


# Whose assignment it is


def test_assignments_that_are_numbered_anew_for_each_worker_are_not_one(ingested):
    rows = [row | {"assignment": "1"} for row in long_rows(ANSWERS[:3])]
    result = ingested(table_bytes(rows))
    assert found(result) == expected(ANSWERS[:3]) and result.rejected.empty
    rows = [row | {"status": "Rejected" if row["worker"] == "11" else "Approved"} for row in rows]
    assert found(ingested(table_bytes(rows))) == expected(ANSWERS[1:3])


def test_a_rejected_row_without_an_assignment_rejects_no_other_row(ingested):
    rows = [{n: r[n] for n in ("worker", "input_id", "rating", "status")} for r in long_rows(ANSWERS)]
    rows[0]["status"] = "Rejected"
    result = ingested(table_bytes(rows))
    assert len(result.ratings) == 19 and reasons(result) == ["the assignment was rejected"]
    assert result.rejected["row"].tolist() == [2]


def test_a_rejected_row_without_an_assignment_is_rejected_in_every_file(ingested):
    rows = [{n: r[n] for n in ("worker", "input_id", "rating", "status")} for r in long_rows(ONE)]
    decided = [rows[0] | {"status": "Rejected"}, *rows[1:]]
    for files in ((rows, decided), (decided, rows)):
        result = ingested(*map(table_bytes, files))
        assert len(result.ratings) == 3
        assert reasons(result).count("the assignment was rejected") == 2


def test_two_turkle_servers_number_alike_and_are_kept_apart(ingested):
    one = turkle_csv(ONE)
    other = one.replace(b'"11"', b'"ada"').replace(b'"on"', b'""')
    assert b'"711"' in one and b'"711"' in other
    result = ingested(one, other)
    assert found(result) == expected([*ONE, answer("ada", TASKS[0], "nnnn")])


# Which image was shown


def addressed(study=STUDY) -> Asked:
    inputs = {
        key: Input(i.image_id, i.description, i.answer, f"https://example.org/{i.image_id}.png")
        for key, i in study.inputs.items()
    }
    return Asked(inputs, study.tasks)


@pytest.mark.parametrize("known", [True, False])
def test_a_slot_that_showed_another_image_is_rejected(ingested, known):
    rows = [row_of(), row_of(ANSWERS[1])]
    rows[0]["Input.image_url1"], rows[0]["Input.image_url2"] = (
        rows[0]["Input.image_url2"],
        rows[0]["Input.image_url1"],
    )
    if not known:
        rows = [{name: cell for name, cell in row.items() if name != "Input.task_id"} for row in rows]
    result = ingested(table_bytes(rows), study=addressed())
    assert len(result.ratings) == 6 and result.rejected["slot"].tolist() == [1, 2]
    assert set(result.rejected["image_id"]) == {"img1", "img2"}
    assert reasons(result)[0] == ("the task showed another image: 'https://example.org/img2.png' is 'img2'")


@pytest.mark.parametrize(
    "url", ["", "https://elsewhere.org/img1.png", "img2", "https://example.org/img9.png"]
)
def test_an_address_that_the_study_does_not_know_rejects_nothing(ingested, url):
    data = table_bytes([row_of() | {"Input.image_url0": url}])
    assert found(ingested(data, study=addressed())) == expected(ONE)


def test_one_address_of_two_images_and_one_with_entities_are_known(ingested):
    red, url = "red", "https://e.org/?a=1&b=2"
    inputs = {"1": Input("a", red, url=url), "2": Input("b", red, url=url), "3": Input("c", red, url="c")}
    study = Asked(inputs, {"t": ("1", "2")})
    given = answer("w", "t", "yn", study)
    row = fixed_cells(given) | input_cells(study, "t") | tick_cells(given)
    for written in (url, escape(url)):
        row |= {"Input.image_url0": written, "Input.image_url1": "c"}
        result = ingested(table_bytes([row]), study=study)
        assert result.ratings["image_id"].tolist() == ["a"]
        assert reasons(result) == ["the task showed another image: 'c' is 'c'"]
    row |= {"Input.image_url1": escape(url)}
    assert found(ingested(table_bytes([row]), study=study)) == expected([given], study)


def test_a_label_studio_task_that_showed_another_image_is_rejected(ingested):
    key = STUDY.tasks[TASKS[0]][0]
    part = {"from_name": "image0", "value": {"choices": ["yes"]}}
    for image, used in (("img0", 1), ("img3", 0)):
        data = {"input_id": key, "image_url": f"https://example.org/{image}.png", "description": "red"}
        export = [{"id": 1, "data": data, "annotations": [{"id": 1, "completed_by": 1, "result": [part]}]}]
        assert len(ingested(json.dumps(export).encode(), study=addressed()).ratings) == used


# White space on the way


@pytest.mark.parametrize(
    "changed", ["two\r\nlines of text", "  two\nlines of  text\n", "two lines of\xa0text"]
)
@pytest.mark.parametrize("by_hit", [False, True])
def test_white_space_that_changed_on_the_way_rejects_nothing(ingested, changed, by_hit):
    study = make_study(["two\nlines of text"], width=2, n_images=2)
    (task,) = study.tasks
    given = answer("w", task, "yn", study)
    (row,) = rows_of([given], study=study)
    if by_hit:
        del row["Input.task_id"]
        row |= {f"Input.input_id{j}": f"img{j}" for j in range(2)}
    hits = {f"H-{task}": task}
    result = ingested(table_bytes([row | {"Input.description": changed}]), study=study, hits=hits)
    assert found(result) == expected([given], study)
    other = ingested(table_bytes([row | {"Input.description": "two linesof text"}]), study=study, hits=hits)
    assert set(reasons(other)) == {"the task was edited after upload: its description is 'two linesof text'"}


def test_another_image_in_a_task_that_is_known_by_its_hit_is_an_edit(ingested):
    task = TASKS[0]
    row = {k: v for k, v in row_of().items() if k != "Input.task_id"}
    row |= {f"Input.input_id{j}": f"img{j}" for j in range(4)} | {"Input.input_id2": "img3"}
    result = ingested(table_bytes([row]), hits={f"H-{task}": task})
    assert result.ratings.empty
    assert all(r.startswith("the task was edited after upload: slot 2 has 'img3'") for r in reasons(result))


# One image twice in a task


def twins() -> Asked:
    return Asked({"1": Input("a", "red"), "2": Input("b", "red")}, {"t": ("1", "2", "1", "1")})


def test_one_image_twice_in_a_task_counts_once(ingested):
    given = Answer("w", "t", (True, False, True, True))
    result = ingested(mturk_csv([given], study=twins()), study=twins())
    assert found(result) == {("w", "a", "red"): True, ("w", "b", "red"): False}
    assert reasons(result) == ["twice in one task: kept is slot 0"] * 2
    assert result.rejected["slot"].tolist() == [2, 3] and not result.workers[0].flags


def test_one_image_twice_in_a_task_with_other_answers_counts_not_at_all(ingested):
    data = mturk_csv([Answer("w", "t", (True, False, True, False))], study=twins())
    again = mturk_csv([Answer("w", "t", (True, False, True, False))], study=twins(), delimiter="\t")
    for files in ((data,), (data, again)):
        result = ingested(*files, study=twins())
        assert found(result) == {("w", "b", "red"): False}
        differ = [reason for reason in reasons(result) if not reason.startswith("the same assignment")]
        assert differ == ["one image twice in a task, answered differently: slots 0, 2, 3"] * 3 * len(files)
        assert not any("copies" in reason for reason in reasons(result))
