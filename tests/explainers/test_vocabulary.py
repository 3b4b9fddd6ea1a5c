import pytest

from pipeline.errors import AssayError
from pipeline.explainers.vocabulary import read_vocabulary


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_blank_lines_and_marks_are_dropped_and_words_kept(tmp_path, end):
    path = tmp_path / "words.txt"
    path.write_bytes(end.join(["\ufeffnan", "", " null ", "true", "   ", "wine cellar", ""]).encode())
    assert read_vocabulary(path) == ["nan", "null", "true", "wine cellar"]


def test_only_line_ends_end_a_line(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("a\u2028b\nc\x0cd\n")
    assert read_vocabulary(path) == ["a\u2028b", "c\x0cd"]


def test_repeated_words_are_returned_as_they_stand(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("shed\nrubble\nshed\n")
    assert read_vocabulary(path) == ["shed", "rubble", "shed"]


def test_a_file_without_words_or_of_another_encoding_stops(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("\n \n")
    with pytest.raises(AssayError, match=r"no word.*explainer.vocabulary"):
        read_vocabulary(path)
    path.write_bytes("red\ncafé\n".encode("cp1252"))
    with pytest.raises(AssayError, match="line 2: byte 0xe9"):
        read_vocabulary(path)
    with pytest.raises(AssayError, match=r"absent.txt does not exist; set explainer.vocabulary"):
        read_vocabulary(tmp_path / "absent.txt")
