import pytest

from pipeline.datasets.rows import read_sheet
from pipeline.errors import AssayError


@pytest.fixture
def sheet(tmp_path):
    def read(content: bytes, *required: str):
        path = tmp_path / "sheet.csv"
        path.write_bytes(content)
        return read_sheet(path, required or ("image",))

    return read


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_any_line_end_and_a_byte_order_mark_read_alike(sheet, end, mark):
    rows = sheet((mark + end.join(["image,concept", "a.png,x", "b.png,y", ""])).encode()).rows
    assert [(row.line, row.values) for row in rows] == [
        (2, {"image": "a.png", "concept": "x"}),
        (3, {"image": "b.png", "concept": "y"}),
    ]


def test_quoted_commas_quotes_and_newlines_stay_in_their_value(sheet):
    rows = sheet(b'image,caption\na.png,"one, ""two""\nthree"\nb.png,x\n').rows
    assert rows[0].values["caption"] == 'one, "two"\nthree'
    assert [row.line for row in rows] == [2, 4]


@pytest.mark.parametrize("word", ["nan", "NA", "null", "None", "none", "true", "1.0", "-"])
def test_words_that_look_like_nothing_are_words(sheet, word):
    assert sheet(f"image,concept\na.png,{word}\n".encode()).rows[0].values["concept"] == word


def test_blank_lines_are_no_rows_and_lines_keep_their_numbers(sheet):
    assert [row.line for row in sheet(b"\nimage,caption\n\n , \na.png,x\n\n").rows] == [5]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"Image,caption\n", "no column 'image'; nearest: 'Image'"),
        (b"image,image\n", "'image' stands there twice"),
        (b"image,caption\na.png,x\nb.png,y,z\n", "line 3: 3 values for 2 columns"),
        (b"image,caption\na.png\n", "line 2: 1 values for 2 columns"),
        (b'image,caption\na.png,"x\n', "line 2"),
        (b"image,caption\na.png,caf\xe9\n", "byte 23 is not UTF-8"),
        ("image\n".encode("utf-16"), "not UTF-8"),
    ],
)
def test_a_broken_sheet_is_named_with_its_line(sheet, content, message):
    with pytest.raises(AssayError, match=message) as error:
        sheet(content)
    assert "sheet.csv" in str(error.value)
