import csv

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import AssayError
from pipeline.mturk.decisions import Decision, read_decisions, write_decisions
from pipeline.mturk.records import records_file, write_records

HEADER = "AssignmentId,Approve,Reject\n"


@pytest.fixture
def decided(tmp_path):
    def write(text, encoding="utf-8"):
        path = tmp_path / "decisions.csv"
        path.write_bytes(text.encode(encoding))
        return path

    return write


def test_x_approves_a_reason_rejects_and_blank_decides_nothing(decided):
    path = decided(HEADER + "3A,x,\n3B,,no image was marked\n3C,,\n3D,X,\n3E, ,  \n")
    assert read_decisions(path) == [
        Decision("3A", "", 2),
        Decision("3B", "no image was marked", 3),
        Decision("3D", "", 5),
    ]


def test_mturks_own_results_file_is_a_decisions_file(decided):
    text = (
        '"HITId","AssignmentId","WorkerId","Answer.taskAnswers","Approve","Reject"\r\n'
        '"3H","3A","AW","[{""image0"":{""on"":true}}]","x",""\r\n'
        '"3H","3B","AV","[{""a"":\r\n1}]","","idle, all the same"\r\n'
    )
    path = decided(text, "utf-8-sig")
    assert [(one.assignment, one.reason) for one in read_decisions(path)] == [
        ("3A", ""),
        ("3B", "idle, all the same"),
    ]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("3A,x,bad work\n", "row 2: 3A is both approved and rejected"),
        ("3A,x,\n3B,,x\n", "row 3: Reject is 'x'; write the reason"),
        ("3A,yes,\n", "row 2: Approve is 'yes'; write x"),
        (",x,\n", "row 2 has no AssignmentId"),
        ("3A,x,\n3B,x,\n3A,,idle\n", "rows 2 and 4 decide 3A differently"),
        ("3A,,idle\n3A,,empty\n", "rows 2 and 3 decide 3A differently"),
        ("3A,x\n", "row 2 has 2 cells, and the header 3"),
        ("3A,,not, quoted\n", "row 2 has 4 cells, and the header 3"),
        (f"3A,,{'x' * 1025}\n", "at most 1024 characters"),
        ("3A,,a\x07b\n", "plain text"),
        ('3A,,"open\n', "no CSV file"),
    ],
)
def test_a_mistake_is_named_with_its_row(decided, rows, message):
    with pytest.raises(AssayError, match=message):
        read_decisions(decided(HEADER + rows))


@pytest.mark.parametrize(
    ("text", "message"), [("", "it has none"), ("AssignmentId,Approve\n", "column Reject")]
)
def test_a_file_without_its_columns_is_named(decided, text, message):
    with pytest.raises(AssayError, match=message):
        read_decisions(decided(text))


def test_a_file_in_another_encoding_is_named(decided):
    with pytest.raises(AssayError, match="no CSV file in UTF-8"):
        read_decisions(decided(HEADER + "3A,,schön\n", "latin-1"))


@pytest.mark.parametrize("header", [HEADER, '"AssignmentId","Approve","Reject"\r\n'])
def test_a_byte_order_mark_is_no_part_of_the_first_column(decided, header):
    assert read_decisions(decided(f"{header}3A,x,\n", "utf-8-sig")) == [Decision("3A", "", 2)]


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(AssayError, match="no such file"):
        read_decisions(tmp_path / "nothing.csv")


def test_the_same_decision_twice_is_one(decided):
    assert len(read_decisions(decided(HEADER + "3A,x,\n3A,X,\n"))) == 1


REASONS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=40)


@given(st.lists(st.tuples(st.booleans(), REASONS), max_size=8))
def test_every_decision_is_read_as_it_was_written(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("decisions") / "d.csv"
    marks = [(approve, reason.strip()) for approve, reason in rows if reason.strip().lower() != "x"]
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["AssignmentId", "Approve", "Reject"])
        writer.writerows([f"3A{n}", "x" if a else "", "" if a else r] for n, (a, r) in enumerate(marks))
    wanted = [(f"3A{n}", "" if a else r) for n, (a, r) in enumerate(marks) if a or r]
    assert [(one.assignment, one.reason) for one in read_decisions(path)] == wanted


def collected(study, **statuses):
    records = [
        {
            "task_id": "t1",
            "AssignmentId": name,
            "HITId": "3H",
            "WorkerId": "AW",
            "AssignmentStatus": status,
            "SubmitTime": "2025-10-09T07:31:21+00:00",
        }
        for name, status in statuses.items()
    ]
    write_records(records_file(study, "sandbox"), records)


def test_undecided_work_is_written_for_a_person_to_decide(study, tmp_path):
    collected(study, A1="Submitted", A2="Approved", A3="Submitted", A4="Rejected")
    path = tmp_path / "decide.csv"
    assert write_decisions(study, path) == 2
    assert read_decisions(path) == []
    rows = list(csv.DictReader(path.open(newline="")))
    assert [row["AssignmentId"] for row in rows] == ["A1", "A3"]
    assert rows[0]["WorkerId"] == "AW" and rows[0]["SubmitTime"] == "2025-10-09T07:31:21+00:00"


def test_approve_all_marks_every_row(study, tmp_path):
    collected(study, A1="Submitted", A3="Submitted")
    path = tmp_path / "decide.csv"
    write_decisions(study, path, approve_all=True)
    assert read_decisions(path) == [Decision("A1", "", 2), Decision("A3", "", 3)]


def test_someones_decisions_are_never_overwritten(study, tmp_path):
    collected(study, A1="Submitted")
    path = tmp_path / "decide.csv"
    path.write_text("mine")
    with pytest.raises(AssayError, match="exists"):
        write_decisions(study, path)
    assert path.read_text() == "mine"
