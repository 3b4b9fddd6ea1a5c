import base64
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.datasets import parquet
from pipeline.datasets.decoding import decode
from pipeline.datasets.parquet_rows import path_in
from pipeline.datasets.reading import ImageReader
from pipeline.errors import AssayError


@pytest.fixture
def root(tmp_path):
    (tmp_path / "data" / "deep").mkdir(parents=True)
    return tmp_path / "data"


def write(root, columns, name="a.parquet", **options):
    pq.write_table(columns if isinstance(columns, pa.Table) else pa.table(columns), root / name, **options)


def manifest(root, **settings):
    return parquet.images(root, root=root, **settings)


def labels(root, *columns, **settings):
    own = {key: value for key, value in settings.items() if key == "id_column"}
    table = manifest(root, on_bad_image="skip", **own).table
    return parquet.labels(table, root, root=root, columns=columns, **settings)


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
def test_every_form_of_a_cell_is_read(root, encoded, cell):
    write(root, {"image": [cell(encoded(i)) for i in range(5)]}, row_group_size=2)
    table = manifest(root).table
    assert table["image_id"].tolist() == [f"a.parquet:{i}" for i in range(5)]
    reader = ImageReader(table, root, root)
    assert [reader[i].tobytes() for i in (4, 0, 2)] == [decode(encoded(i)).tobytes() for i in (4, 0, 2)]


def test_paths_from_the_root_and_from_the_files_folder_are_plain_files(root, encoded):
    (root / "one.png").write_bytes(encoded(1))
    (root / "deep" / "two.png").write_bytes(encoded(2))
    write(root, {"image": ["one.png", "two.png"]}, "deep/a.parquet")
    table = manifest(root).table
    assert table["path"].tolist() == ["one.png", "deep/two.png"]
    assert table["member"].tolist() == ["", ""]
    reader = ImageReader(table, root, root)
    assert reader.encoded(1) == encoded(2)


def test_a_struct_without_bytes_names_a_file(root, encoded):
    (root / "one.png").write_bytes(encoded(1))
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    write(root, pa.table({"image": pa.array([{"bytes": None, "path": "one.png"}], kind)}))
    assert manifest(root).table["path"].tolist() == ["one.png"]


def test_an_image_outside_the_root_is_refused(root, encoded):
    (root.parent / "out.png").write_bytes(encoded())
    write(root, {"image": ["../out.png"]})
    with pytest.raises(AssayError, match="outside"):
        manifest(root)


def test_ids_come_from_the_id_column_and_files_in_order(root, encoded):
    write(root, {"pic": [encoded(1)], "key": ["x"]}, "b.parquet")
    write(root, {"pic": [encoded(2)], "key": ["y"]}, "a.parquet")
    table = manifest(root, image_column="pic", id_column="key").table
    assert table["image_id"].tolist() == ["y", "x"]


def test_whole_number_ids_become_text(root, encoded):
    write(root, {"image": [encoded(1)], "key": [17]})
    assert manifest(root, id_column="key").table["image_id"].tolist() == ["17"]


def test_an_id_twice_names_both_rows_and_a_missing_id_its_own(root, encoded):
    write(root, {"image": [encoded(0)] * 3, "key": ["x", "y", "x"]})
    with pytest.raises(AssayError, match=r"'x'.*row 0 and .*row 2"):
        manifest(root, id_column="key")
    write(root, {"image": [encoded(0)] * 2, "key": ["x", None]})
    with pytest.raises(AssayError, match="row 1 has no id"):
        manifest(root, id_column="key")


def test_unreadable_cells_stop_or_are_skipped_with_file_and_row(root, encoded):
    write(root, {"image": [encoded(0), b"junk", None], "red": [1, 1, 1]})
    with pytest.raises(AssayError, match=r"a\.parquet, row 1"):
        manifest(root)
    result = manifest(root, on_bad_image="skip")
    assert result.skipped["image_id"].tolist() == ["a.parquet:1", "a.parquet:2"]
    assert labels(root, "red").attributes.tolist() == [[1]]


def test_text_that_is_neither_file_nor_base64_says_so(root):
    write(root, {"image": ["images/none.png"]})
    with pytest.raises(AssayError, match=r"'images/none\.png' names no file and is no base64"):
        manifest(root)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"image_column": "imgae"}, r"dataset\.image_column='imgae'.*nearest: 'image'"),
        ({"id_column": "kye"}, r"dataset\.id_column='kye'.*nearest: 'key'"),
    ],
)
def test_a_missing_column_is_named_with_the_nearest(root, encoded, settings, message):
    write(root, {"image": [encoded(0)], "key": ["x"]})
    with pytest.raises(AssayError, match=message):
        manifest(root, **settings)


def test_no_file_no_row_and_a_broken_file_are_named(root):
    with pytest.raises(AssayError, match=r"no \*\.parquet file below"):
        manifest(root)
    write(root, pa.table({"image": pa.array([], pa.binary())}))
    with pytest.raises(AssayError, match="have no row"):
        manifest(root)
    (root / "a.parquet").write_bytes(b"PAR1 broken")
    with pytest.raises(AssayError, match=r"a\.parquet cannot be read as Parquet"):
        manifest(root)


def test_every_kind_of_label_column_gives_its_attributes(root, encoded):
    write(
        root,
        {
            "image": [encoded(i) for i in range(3)],
            "red": [1, 0, None],
            "round": [True, True, False],
            "kind": ["ball", "nan", ""],
            "tags": [["x", "y", "x"], [], None],
            "text": ["a red ball", None, "none"],
        },
    )
    found = labels(root, "kind", "red", "tags", "round", caption_column="text")
    assert found.table.values.tolist() == [
        ["red", "column", 1],
        ["round", "column", 2],
        ["ball", "kind", 1],
        ["nan", "kind", 1],
        ["x", "tags", 1],
        ["y", "tags", 1],
    ]
    assert found.attributes.tolist() == [[1, 1, 1, 0, 1, 1], [0, 1, 0, 1, 0, 0], [0, 0, 0, 0, 0, 0]]
    assert found.captions["caption"].tolist() == ["a red ball", "none"]


def test_labels_follow_the_ids_not_the_rows(root, encoded):
    write(root, {"image": [b"junk", encoded(1)], "key": ["x", "y"], "red": [1, 0], "blue": [0, 1]})
    found = labels(root, "red", "blue", id_column="key", min_count=0)
    assert found.attributes.tolist() == [[0, 1]]


def test_class_names_in_the_metadata_name_the_numbers(root, encoded):
    features = {"info": {"features": {"label": {"names": ["cat", "dog"], "_type": "ClassLabel"}}}}
    table = pa.table({"image": [encoded(0), encoded(1), encoded(2)], "label": [1, 0, -1]})
    write(root, table.replace_schema_metadata({"huggingface": json.dumps(features)}))
    found = labels(root, "label")
    assert found.table.values.tolist() == [["cat", "label", 1], ["dog", "label", 1]]
    assert found.attributes.tolist() == [[0, 1], [1, 0], [0, 0]]


@pytest.mark.parametrize(
    ("columns", "asked", "message"),
    [
        ({"red": [2]}, ["red"], r"row 0: column 'red' has 2, which is neither 0 nor 1"),
        ({"red": [0.5]}, ["red"], r"column 'red' holds double"),
        ({"red": [1]}, ["rde"], r"'rde'.*nearest: 'red'"),
        ({"red": [1]}, [], r"dataset\.labels\.columns is empty"),
    ],
)
def test_label_columns_that_cannot_be_used_are_named(root, encoded, columns, asked, message):
    write(root, {"image": [encoded(0)], **columns})
    with pytest.raises(AssayError, match=message):
        labels(root, *asked)


def test_a_column_of_two_kinds_in_two_files_is_named(root, encoded):
    write(root, {"image": [encoded(0)], "red": [1]}, "a.parquet")
    write(root, {"image": [encoded(1)], "red": ["yes"]}, "b.parquet")
    with pytest.raises(AssayError, match=r"b\.parquet: column 'red' is of another kind"):
        labels(root, "red")


@pytest.mark.parametrize("length", [100, 255, 256, 700, 1024, 5000])
def test_text_of_any_length_that_names_no_file_is_no_file(tmp_path, length):
    assert path_in("A" * length, [tmp_path]) is None
