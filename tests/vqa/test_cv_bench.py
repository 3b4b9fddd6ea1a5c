import base64
import pickle
from io import BytesIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from pipeline.datasets.decoding import decode
from pipeline.errors import AssayError
from pipeline.vqa import cv_bench

PROMPT = "How many dogs are there? Select from the following choices.\n(A) 1\n(B) 3"


def rows(images, kind="2D", **changes):
    n = len(images)
    columns = {
        "idx": list(range(n)),
        "type": [kind] * n,
        "task": ["Count"] * n,
        "image": images,
        "question": ["How many dogs are there?"] * n,
        "choices": [["1", "3"]] * n,
        "answer": ["(B)"] * n,
        "prompt": [PROMPT] * n,
        "filename": ["img.png"] * n,
    }
    return {**columns, **changes}


def write(root, columns, name="test_2d.parquet", **options):
    (root / name).parent.mkdir(exist_ok=True)
    pq.write_table(pa.table(columns), root / name, **options)


def test_the_published_files_are_read_row_by_row(root, encoded):
    write(root, rows([{"bytes": encoded(i), "path": f"{i}.png"} for i in range(5)]), row_group_size=2)
    write(root, rows([{"bytes": encoded(9), "path": None}], "3D", task=["Depth"]), "test_3d.parquet")
    samples = cv_bench.read(root)
    assert [sample.sample_id for sample in samples] == ["2D-0", "2D-1", "2D-2", "2D-3", "2D-4", "3D-0"]
    first, last = samples[0], samples[-1]
    assert (first.question, first.answer, first.choices, first.category) == (PROMPT, "B", ("1", "3"), "Count")
    assert last.category == "Depth"
    assert first.mask is None
    for i in (4, 0, 2):
        assert samples[i].image().tobytes() == decode(encoded(i)).tobytes()
    assert last.image().tobytes() == decode(encoded(9)).tobytes()


@pytest.mark.parametrize(
    "cell",
    [
        lambda data: data,
        lambda data: {"bytes": data, "path": None},
        lambda data: base64.b64encode(data).decode(),
        lambda data: "data:image/png;base64," + base64.b64encode(data).decode(),
    ],
    ids=["bytes", "struct", "base64", "data URL"],
)
def test_every_form_of_an_image_cell_is_read(root, encoded, cell):
    write(root, rows([cell(encoded(i)) for i in range(3)]))
    samples = cv_bench.read(root)
    assert [np.asarray(s.image()).tolist() for s in samples] == [
        np.asarray(decode(encoded(i))).tolist() for i in range(3)
    ]


def test_base64_that_is_too_long_for_a_file_name_is_an_image(root):
    buffer = BytesIO()
    Image.new("RGB", (8, 8)).save(buffer, "BMP")
    text = base64.b64encode(buffer.getvalue()).decode()
    assert max(map(len, text.split("/"))) > 255
    assert len(text) < 1024
    write(root, rows([text]))
    assert cv_bench.read(root)[0].image().getcolors() == [(64, (0, 0, 0))]


@pytest.mark.parametrize("struct", [False, True])
def test_a_path_is_looked_up_beside_the_file_and_in_the_root(root, encoded, struct):
    (root / "deep").mkdir()
    (root / "one.png").write_bytes(encoded(1))
    (root / "deep" / "two.png").write_bytes(encoded(2))
    cells = [{"bytes": None, "path": name} if struct else name for name in ("one.png", "two.png")]
    columns = rows(cells)
    if struct:
        kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
        columns["image"] = pa.array(cells, kind)
    write(root, columns, "deep/test_2d.parquet")
    samples = cv_bench.read(root)
    assert samples[0].image().tobytes() == decode(encoded(1)).tobytes()
    assert samples[1].image().tobytes() == decode(encoded(2)).tobytes()


def test_an_image_outside_the_root_is_refused(root, encoded):
    (root.parent / "out.png").write_bytes(encoded())
    write(root, rows(["../out.png"]))
    with pytest.raises(AssayError, match="outside"):
        cv_bench.read(root)[0].image()


def test_listing_reads_no_image_and_a_broken_one_names_file_row_and_column(root, encoded):
    write(root, rows([encoded(0), b"junk", b"", None, encoded(1)[:40]]))
    samples = cv_bench.read(root)
    assert samples[0].image().size == (8, 8)
    for i in range(1, 5):
        with pytest.raises(AssayError, match=rf"test_2d\.parquet, row {i}, column 'image'"):
            samples[i].image()


def test_a_file_that_is_gone_or_another_is_read_as_it_stands(root, encoded):
    write(root, rows([encoded(0)]))
    sample = cv_bench.read(root)[0]
    sample.image()
    write(root, rows([encoded(5)]))
    assert sample.image().tobytes() == decode(encoded(5)).tobytes()
    (root / "test_2d.parquet").unlink()
    with pytest.raises(AssayError, match=r"test_2d\.parquet, row 0, column 'image'"):
        sample.image()


def test_samples_pickle(root, encoded):
    write(root, rows([encoded(0)]))
    sample = cv_bench.read(root)[0]
    again = pickle.loads(pickle.dumps(sample))
    assert again == sample
    assert again.image().tobytes() == sample.image().tobytes()


def test_a_suffix_stands_on_a_line_of_its_own(root, encoded):
    write(root, rows([encoded(0)]))
    assert (
        cv_bench.read(root, suffix="Answer with the letter.")[0].question
        == PROMPT + "\nAnswer with the letter."
    )


@pytest.mark.parametrize("column", [*cv_bench.COLUMNS, "image"])
def test_a_missing_column_is_named_with_its_file(root, encoded, column):
    columns = rows([encoded(0)])
    del columns[column]
    write(root, columns)
    with pytest.raises(AssayError, match=rf"test_2d\.parquet: no column '{column}'"):
        cv_bench.read(root)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("answer", "(C)", "'(C)' is not the letter of one of 2 choices"),
        ("answer", "B", "'B' is not the letter"),
        ("answer", None, "is empty"),
        ("type", "4D", "'4D' is not one of 2D, 3D"),
        ("task", "Colour", "'Colour' is not one of Count, Relation, Depth, Distance"),
        ("choices", [], "is not a list of choices"),
        ("prompt", "  ", "is not a text"),
        ("idx", None, "is empty"),
    ],
)
def test_a_value_that_there_is_not_names_file_row_and_column(root, encoded, column, value, message):
    columns = rows([encoded(0), encoded(1)])
    columns[column] = [columns[column][0], value]
    write(root, columns)
    with pytest.raises(AssayError) as caught:
        cv_bench.read(root)
    assert f"test_2d.parquet, row 1, column '{column}'" in str(caught.value)
    assert message in str(caught.value)


def test_an_id_that_stands_twice_names_both_rows(root, encoded):
    write(root, rows([encoded(0), encoded(1)]))
    write(root, rows([encoded(0)], idx=[1]), "test.parquet")
    with pytest.raises(
        AssayError, match=r"'2D-1' stands twice: .*test\.parquet, row 0 and .*2d\.parquet, row 1"
    ):
        cv_bench.read(root)


def test_no_folder_no_file_no_row_and_a_broken_file_are_named(root, encoded):
    with pytest.raises(AssayError, match="there is no folder"):
        cv_bench.read(root / "none")
    with pytest.raises(AssayError, match=r"no \*\.parquet file below"):
        cv_bench.read(root)
    table = pa.table(rows([encoded(0)]))
    pq.write_table(table.slice(0, 0), root / "test_2d.parquet")
    with pytest.raises(AssayError, match=r"test_2d\.parquet has no row"):
        cv_bench.read(root)
    (root / "test_2d.parquet").write_bytes(b"")
    with pytest.raises(AssayError, match=r"test_2d\.parquet cannot be read as Parquet"):
        cv_bench.read(root)
