import time

import pytest

from pipeline.errors import AssayError
from pipeline.explainers.vocabulary import Vocabulary, distinct, read_vocabulary


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("last", ["", None])
def test_blank_lines_and_marks_are_dropped_and_words_kept(tmp_path, end, last):
    path = tmp_path / "words.txt"
    lines = ["\ufeffnan", "", " null ", "true", "   ", "wine cellar", "none"]
    path.write_bytes(end.join([*lines, *([last] if last is not None else [])]).encode())
    words = ("nan", "null", "true", "wine cellar", "none")
    assert read_vocabulary(path) == Vocabulary(words, (0, 2, 3, 5, 6), n_blank=2, n_repeated=0)


def test_only_line_ends_end_a_line(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("a\u2028b\nc\x0cd\n")
    assert read_vocabulary(path).words == ("a\u2028b", "c\x0cd")


def test_repeats_are_counted_at_their_first_place_and_case_is_kept(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("\nshed\nShed\n shed\nrubble\nshed\n\n")
    found = read_vocabulary(path)
    assert found == Vocabulary(("shed", "Shed", "rubble"), (1, 2, 4), n_blank=2, n_repeated=2)
    assert found.notes("m") == [
        "m: 2 blank lines of the vocabulary were left out",
        "m: 2 repeated words of the vocabulary were counted once",
    ]
    assert distinct(found.words) == Vocabulary(found.words, (0, 1, 2), 0, 0)
    assert distinct(found.words).notes("m") == []


def test_a_hundred_thousand_words_are_quick(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("\n".join(f"w{place % 99_990}" for place in range(100_000)))
    start = time.process_time()
    found = read_vocabulary(path)
    assert time.process_time() - start < 2
    assert (len(found.words), found.n_repeated, found.words[-1]) == (99_990, 10, "w99989")


def test_a_file_without_words_or_of_another_encoding_stops(tmp_path):
    path = tmp_path / "words.txt"
    for text in ("\n \n", ""):
        path.write_text(text)
        with pytest.raises(AssayError, match=r"no word.*explainer.vocabulary"):
            read_vocabulary(path)
    path.write_bytes("red\ncafé\n".encode("cp1252"))
    with pytest.raises(AssayError, match="line 2: byte 0xe9"):
        read_vocabulary(path)
    with pytest.raises(AssayError, match=r"absent.txt does not exist; set explainer.vocabulary"):
        read_vocabulary(tmp_path / "absent.txt")
