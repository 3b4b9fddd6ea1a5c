import csv

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.datasets.decoding import decode
from pipeline.errors import AssayError
from pipeline.vqa import mmstar

QUESTION = 'Which "object" is it?\nOptions: A: a cat, B: a dog, C: a fish, D: a bird'
HEADER = ["index", "question", "image", "answer", "category", "l2_category", "meta_info"]


def row(index, image, answer="B", category="math", question=QUESTION):
    meta = {"source": "SEED", "split": "val", "image_path": "a.jpg"}
    return dict(zip(HEADER, [index, question, image, answer, category, "geometry", meta], strict=True))


def write_parquet(root, rows):
    pq.write_table(pa.Table.from_pylist(rows), root / "mmstar.parquet")


def write_tsv(root, rows, header=HEADER, name="MMStar.tsv", encoding="utf-8"):
    with (root / name).open("w", newline="", encoding=encoding) as stream:
        writer = csv.writer(stream, delimiter="\t", lineterminator="\n")
        writer.writerow(header)
        writer.writerows([[str(r.get(column, "")) for column in header] for r in rows])


def told(samples):
    return [(s.sample_id, s.question, s.answer, s.category, s.image().tobytes()) for s in samples]


def test_parquet_and_tsv_tell_the_same_samples(root, encoded, base64_of):
    write_tsv(root, [row(i, base64_of(i), "ABCD"[i]) for i in range(4)])
    from_tsv = told(mmstar.read(root))
    assert from_tsv == [(str(i), QUESTION, "ABCD"[i], "math", decode(encoded(i)).tobytes()) for i in range(4)]
    write_parquet(root, [row(i, encoded(i), "ABCD"[i]) for i in range(4)])
    assert told(mmstar.read(root)) == from_tsv


def test_parquet_is_read_where_the_published_folder_holds_both(root, encoded):
    write_parquet(root, [row(0, encoded(0))])
    (root / "MMStar.tsv").write_text("not read")
    assert [sample.sample_id for sample in mmstar.read(root)] == ["0"]


def test_an_image_longer_than_the_cell_limit_of_csv_is_read_and_the_limit_stays(root, encoded, base64_of):
    limit = csv.field_size_limit()
    image = base64_of(1, side=220)
    assert len(image) > limit
    write_tsv(root, [row(0, base64_of(0)), row(1, image), row(2, base64_of(2))])
    samples = mmstar.read(root)
    assert samples[1].image().tobytes() == decode(encoded(1, side=220)).tobytes()
    assert samples[2].image().tobytes() == decode(encoded(2)).tobytes()
    assert csv.field_size_limit() == limit


def test_a_short_cell_with_an_index_stands_for_that_rows_image(root, encoded, base64_of):
    write_tsv(root, [row(5, "7"), row(7, base64_of(7))])
    samples = mmstar.read(root)
    assert samples[0].image().tobytes() == decode(encoded(7)).tobytes()


def test_a_tsv_cell_may_name_a_file(root, encoded):
    (root / "images").mkdir()
    (root / "images" / "a.jpg").write_bytes(encoded(3, kind="JPEG"))
    write_tsv(root, [row(0, "images/a.jpg")])
    assert mmstar.read(root)[0].image().tobytes() == decode(encoded(3, kind="JPEG")).tobytes()


def test_a_byte_order_mark_and_windows_line_ends_are_taken(root, encoded, base64_of):
    write_tsv(root, [row(0, base64_of(0)), row(1, base64_of(1))], encoding="utf-8-sig")
    path = root / "MMStar.tsv"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    samples = mmstar.read(root)
    assert samples[1].image().tobytes() == decode(encoded(1)).tobytes()


def test_meta_info_is_not_needed_and_the_suffix_is_appended(root, base64_of):
    write_tsv(root, [row(0, base64_of(0))], HEADER[:-1])
    assert mmstar.read(root, suffix="Letter only.")[0].question == QUESTION + "\nLetter only."


@pytest.mark.parametrize("column", [*mmstar.COLUMNS, "image"])
def test_a_missing_column_is_named_with_its_file(root, encoded, base64_of, column):
    write_tsv(root, [row(0, base64_of(0))], [name for name in HEADER if name != column])
    with pytest.raises(AssayError, match=rf"MMStar\.tsv, line 1: no column '{column}'"):
        mmstar.read(root)
    write_parquet(root, [{k: v for k, v in row(0, encoded(0)).items() if k != column}])
    with pytest.raises(AssayError, match=rf"mmstar\.parquet: no column '{column}'"):
        mmstar.read(root)


def test_an_answer_that_is_no_letter_and_a_missing_category_name_line_and_column(root, base64_of):
    write_tsv(root, [row(0, base64_of(0)), row(1, base64_of(1), answer="E")])
    with pytest.raises(
        AssayError, match=r"MMStar\.tsv, line 4, column 'answer': 'E' is not one of A, B, C, D"
    ):
        mmstar.read(root)
    write_tsv(root, [row(0, base64_of(0), category="")])
    with pytest.raises(AssayError, match=r"line 2, column 'category': '' is empty"):
        mmstar.read(root)


@pytest.mark.parametrize("cell", ["", "no/such/file.png", "aGVsbG8="])
def test_an_unreadable_image_names_file_line_and_column(root, base64_of, cell):
    write_tsv(root, [row(0, base64_of(0)), row(1, cell)])
    samples = mmstar.read(root)
    samples[0].image()
    with pytest.raises(AssayError, match=r"MMStar\.tsv, line 4, column 'image'"):
        samples[1].image()


def test_an_index_that_stands_twice_names_both_lines(root, base64_of):
    write_tsv(root, [row(0, base64_of(0)), row(0, base64_of(1))])
    with pytest.raises(AssayError, match=r"'0' stands twice: .*line 2 and .*line 4"):
        mmstar.read(root)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "MMStar.tsv is empty"),
        (b"\n\n", "MMStar.tsv is empty"),
        ("\t".join(HEADER).encode() + b"\n", "MMStar.tsv has no row"),
        (b"index\tindex\n", "two columns are named 'index'"),
        ("\t".join(HEADER).encode() + b"\n1\t2\n", "line 2: 2 cells for 7 columns"),
        ("\t".join(HEADER).encode() + b'\n1\t"open', "line 2: the row that starts here cannot be read"),
        ("\t".join(HEADER).encode() + b"\n1\t\xff\n", "line 2: 'utf-8' codec"),
    ],
)
def test_a_broken_tsv_names_the_line(root, text, message):
    (root / "MMStar.tsv").write_bytes(text)
    with pytest.raises(AssayError) as caught:
        mmstar.read(root)
    assert message in str(caught.value)


def test_a_folder_without_either_file_says_what_was_looked_for(root):
    with pytest.raises(AssayError, match=r"no \*\.parquet and no \*\.tsv"):
        mmstar.read(root)
