import json

import pandas as pd
import pytest
from ingest_formats import (
    ANSWERS,
    FORMATS,
    STUDY,
    TASKS,
    answer,
    assignments,
    emailed,
    expected,
    fixed_cells,
    found,
    ingest_files,
    input_cells,
    json_bytes,
    json_cells,
    json_lines,
    label_studio,
    long_rows,
    mturk_csv,
    reasons,
    table_bytes,
    tick_cells,
)

from pipeline.errors import AssayError
from pipeline.ingest.ingesting import ingest


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_ratings(ingested, name):
    result = ingested(FORMATS[name])
    assert found(result) == expected(ANSWERS)
    assert result.rejected.empty
    assert result.counts.n_rows == (20 if name.startswith("long") else 6)
    submitted = result.ratings["submitted"].drop_duplicates().dt.floor("s")
    assert submitted.tolist() == [pd.Timestamp("2025-10-09 07:30:20", tz="UTC")]
    assert result.ratings["seconds"].between(61, 61.3).all()


def test_a_file_is_known_by_its_contents_and_not_by_its_name(tmp_path):
    files = {
        "a.csv": FORMATS["label studio"],
        "b.json": FORMATS["mturk tsv"],
        "c.txt": FORMATS["long parquet"],
    }
    forms = [facts.format for facts in ingest_files(tmp_path, files).files]
    assert forms == ["Label Studio export, JSON", "MTurk results, TSV", "long table, Parquet"]


def test_ratings_come_sorted_and_typed(ingested):
    table = ingested(FORMATS["mturk ticks"]).ratings
    key = ["description", "image_id", "worker"]
    assert table[key].to_records(index=False).tolist() == sorted(table[key].to_records(index=False).tolist())
    assert table.columns.tolist() == [
        "worker",
        "assignment",
        "image_id",
        "description",
        "rating",
        "status",
        "source",
        "row",
        "task",
        "seconds",
        "submitted",
    ]
    assert table["rating"].dtype == bool and table["row"].dtype == "int64"
    assert set(table["task"]) == set(TASKS) and set(table["row"]) == set(range(2, 8))
    assert set(table["source"]) == {"file0"} and set(table["status"]) == {"Submitted"}


def test_a_result_without_any_rating_has_the_same_columns_and_types(ingested):
    empty = ingested(mturk_csv([answer("1", TASKS[0], "yyyy", status="Rejected")]))
    full = ingested(FORMATS["mturk ticks"])
    assert empty.ratings.empty and (empty.ratings.dtypes == full.ratings.dtypes).all()
    assert (empty.rejected.dtypes == full.rejected.dtypes).all()
    assert empty.rejected["slot"].dtype == "Int64"


# Turkle


def test_turkle_names_the_user_where_there_is_no_worker(ingested):
    row = {k: v for k, v in fixed_cells(ANSWERS[0]).items() if k not in ("AssignmentStatus", "RejectionTime")}
    row |= {"WorkerId": "", "Turkle.Username": "ada"} | input_cells(STUDY, TASKS[0]) | tick_cells(ANSWERS[0])
    assert set(ingested(table_bytes([row])).ratings["worker"]) == {"ada"}


# Label Studio


def test_label_studio_workers_may_be_email_addresses(ingested):
    result = ingested(json_bytes(label_studio(emailed(ANSWERS), emails=True)))
    assert found(result) == expected(emailed(ANSWERS))


def test_a_cancelled_annotation_is_rejected_with_its_reason(ingested):
    export = label_studio(ANSWERS[:2])
    export[0]["annotations"][1]["was_cancelled"] = True
    result = ingested(json_bytes(export))
    assert found(result) == expected(ANSWERS[:1])
    assert set(reasons(result)) == {"cancelled by the worker: was_cancelled"}


def test_an_annotation_without_a_choice_is_missing_and_with_two_is_no_answer(ingested):
    export = label_studio(ANSWERS[:1])
    parts = export[0]["annotations"][0]["result"]
    del parts[0]
    parts[0]["value"]["choices"] = ["yes", "no"]
    result = ingested(json_bytes(export))
    assert len(result.ratings) == 2
    assert reasons(result) == [
        "no answer: Answer.image0.on is blank",
        "neither yes nor no: Answer.image1.on is 'yes;no'",
    ]


def test_label_studio_tasks_of_one_image_are_read(ingested):
    key = STUDY.tasks[TASKS[0]][0]
    export = [
        {
            "id": 5,
            "data": {"input_id": key, "image": "x.png"},
            "annotations": [
                {
                    "id": n,
                    "completed_by": n,
                    "result": [{"from_name": "c", "type": "choices", "value": {"choices": [said]}}],
                }
                for n, said in ((1, "yes"), (2, "No"))
            ],
        }
    ]
    votes = found(ingested(json_bytes(export)))
    assert votes == {("1", "img0", "red"): True, ("2", "img0", "red"): False}


def test_two_installations_may_number_their_annotations_alike(ingested):
    one, other = label_studio(ANSWERS[:1]), label_studio([answer("99", TASKS[0], "nyyn")])
    assert len(ingested(json_bytes(one), json_bytes(other)).ratings) == 8


def test_tasks_that_nobody_annotated_are_noted(ingested):
    export = label_studio(ANSWERS[:1])
    export.append(export[0] | {"annotations": []})
    result = ingested(json_bytes(export))
    assert result.counts.n_rows == 1 and result.files[0].notes == ("1 tasks without annotations",)


# Long tables


@pytest.mark.parametrize("yes,no", [("1", "0"), ("True", "False"), ("1.0", "0.0"), ("YES", "no"), ("y", "N")])
def test_a_table_with_the_names_of_crowd_kit_is_read(ingested, yes, no):
    rows = [
        {"task": row["input_id"], "worker": row["worker"], "label": yes if row["rating"] == "yes" else no}
        for row in long_rows(ANSWERS)
    ]
    assert found(ingested(table_bytes(rows))) == expected(ANSWERS)


def test_a_long_table_may_name_image_and_description(ingested):
    rows = [
        {name: row[name] for name in ("worker", "image_id", "description", "rating")}
        for row in long_rows(ANSWERS)
    ]
    assert found(ingested(table_bytes(rows))) == expected(ANSWERS)


def test_rows_of_a_long_table_fail_one_by_one(ingested):
    rows = long_rows(ANSWERS)
    rows[0]["rating"] = "maybe"
    rows[1]["input_id"], rows[1]["image_id"] = "i000000000000", ""
    rows[2]["description"] = "green"
    rows[3]["worker"] = " "
    rows[4]["rating"] = ""
    rows[5]["task"] = "t000000000000"
    result = ingested(table_bytes(rows))
    assert len(result.ratings) == 14 and result.counts.n_read == 20
    assert reasons(result) == [
        "neither yes nor no: rating is 'maybe'",
        "input not in the study: 'i000000000000'",
        "the task was edited after upload: its description is 'green'",
        "no worker: WorkerId is blank or absent",
        "no answer: rating is blank",
        "task not in the study: 't000000000000' (edited after upload, or another study's)",
    ]
    assert result.rejected["row"].tolist() == [2, 3, 4, 5, 6, 7]


def test_a_doubled_long_table_without_assignments_counts_once(ingested):
    rows = [{n: r[n] for n in ("worker", "input_id", "rating")} for r in long_rows(ANSWERS)]
    other = [rows[0] | {"rating": "no"}, *rows[1:]]
    assert found(ingested(table_bytes(rows), table_bytes(rows + rows[:1]))) == expected(ANSWERS)
    result = ingested(table_bytes(rows), table_bytes(other))
    assert len(result.ratings) == 19
    assert sum(r.startswith("two copies of this assignment differ") for r in reasons(result)) == 2


# boto3


def test_unreadable_xml_rejects_its_assignment_only(ingested):
    given = assignments(ANSWERS[:3])
    given[0]["Answer"] = given[0]["Answer"][:-9]
    given[1]["Answer"] = '<!DOCTYPE x [<!ENTITY e "true">]><x>&e;</x>'
    result = ingested(json_bytes(given))
    assert found(result) == expected(ANSWERS[2:3])
    assert all(reason.startswith("unreadable answer") for reason in reasons(result))


def test_two_answers_to_one_question_are_no_answer(ingested):
    given = assignments(ANSWERS[:1])
    extra = "<Answer><QuestionIdentifier>image0.on</QuestionIdentifier><FreeText>false</FreeText></Answer>"
    given[0]["Answer"] = given[0]["Answer"].replace(
        "</QuestionFormAnswers>", extra + "</QuestionFormAnswers>"
    )
    assert reasons(ingested(json_bytes(given))) == ["unreadable answer: two answers to image0.on"]


def test_assignments_without_a_task_are_found_by_their_hit(ingested):
    given = [{k: v for k, v in one.items() if k != "task_id"} for one in assignments(ANSWERS)]
    hits = {f"H-{task}": task for task in TASKS}
    assert found(ingested(json_lines(given), hits=hits)) == expected(ANSWERS)


# Refusals


@pytest.mark.parametrize(
    "data,words",
    [
        (b"", "is empty"),
        (b"\xef\xbb\xbf \n", "is empty"),
        (b"%PDF-1.7 ...", "a PDF"),
        (b"\x89PNG\r\n\x1a\n", "a PNG image"),
        (b"PK\x03\x04....", "spreadsheet workbook"),
        (b"PAR1....PAR1", "Parquet file that cannot be read"),
        (b"<html><body>Sign in</body></html>", "an HTML or XML page"),
        (b"name,colour\nada,red\n", "a table of an unknown kind, its first line has 'name', 'colour'"),
        (b'{"votes": 3}', "JSON of an unknown kind, its first record has 'votes'"),
        (b'[{"a": 1]', "JSON that cannot be read"),
        (b"worker,input_id,rating\nada,i1,y\xe9s\n", "line 2: not UTF-8"),
        (b"worker,input_id,rating\nada,i1,y\x00s\n", "line 2: a zero byte"),
        (b"worker,input_id,rating,worker\nada,i1,yes,eve\n", "two columns are named 'worker'"),
        (b'worker,input_id,rating\nada,i1,yes\neve,i1,"no\n', "line 3: the row that starts here"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_what_is_no_results_file_is_refused_by_name(ingested, data, words):
    with pytest.raises(AssayError, match="file0") as error:
        ingested(data)
    assert words in str(error.value)


def test_json_lines_name_the_line_that_cannot_be_read(ingested):
    with pytest.raises(AssayError, match="line 4"):
        ingested(json_lines(assignments(ANSWERS[:2])).replace(b"\n", b"\n\n", 1) + b'{"broken')


def test_files_that_are_not_there_and_folders_are_named(ingested, tmp_path):
    for path in (tmp_path / "none.csv", tmp_path):
        with pytest.raises(AssayError, match=path.name):
            ingest([path], STUDY, n_raters=3)


def test_json_with_a_repeated_name_is_refused_and_never_halved(ingested):
    row = fixed_cells(ANSWERS[0]) | input_cells(STUDY, TASKS[0])
    row["Answer.taskAnswers"] = '[{"image0": {"on": true}, "image0": {"on": false}}]'
    assert reasons(ingested(table_bytes([row]))) == ["unreadable taskAnswers: the name 'image0' twice"]


def test_a_headerless_file_is_read_by_the_fixed_columns_where_its_answers_name_themselves(ingested):
    result = ingested(mturk_csv(ANSWERS, json_cells, header=False))
    assert found(result) == expected(ANSWERS)
    assert result.ratings["row"].min() == 1


def test_a_headerless_file_with_flattened_answers_is_refused_by_name(ingested):
    with pytest.raises(AssayError, match="no header line"):
        ingested(mturk_csv(ANSWERS, header=False))


def test_lone_surrogates_in_json_come_through(ingested):
    text = json.dumps(label_studio(emailed(ANSWERS[:1]), emails=True)).replace("11@", "\\ud80011@")
    result = ingested(text.encode())
    assert set(result.ratings["worker"]) == {"\\ud80011@example.org"}
