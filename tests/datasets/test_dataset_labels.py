import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.datasets.labels import Family, assemble, captions_table
from pipeline.errors import AssayError

NO_CAPTIONS = captions_table([])


def labelled(n, *families, min_count=1):
    return assemble(n, families, NO_CAPTIONS, min_count)


@given(
    st.lists(st.tuples(st.integers(0, 6), st.sampled_from("abcd")), min_size=1, max_size=40),
    st.integers(1, 4),
)
def test_attributes_and_counts_are_those_of_a_literal_loop(pairs, min_count):
    names = sorted({name for _, name in pairs})
    literal = np.array([[(row, name) in pairs for name in names] for row in range(7)], dtype=np.uint8)
    keep = literal.sum(axis=0) >= min_count
    family = Family("concept", [row for row, _ in pairs], [name for _, name in pairs])
    if not keep.any():
        with pytest.raises(AssayError, match=f"min_count={min_count}"):
            labelled(7, family, min_count=min_count)
        return
    labels = labelled(7, family, min_count=min_count)
    assert labels.attributes.dtype == np.uint8
    assert labels.attributes.tolist() == literal[:, keep].tolist()
    assert labels.table["name"].tolist() == [name for name, kept in zip(names, keep, strict=True) if kept]
    assert labels.table["count"].tolist() == literal[:, keep].sum(axis=0).tolist()


def test_of_two_families_with_one_name_the_first_keeps_it():
    labels = labelled(3, Family("concept", [0], ["T-Shirt"]), Family("category", [1, 2], ["t shirt", "hat"]))
    assert labels.table.values.tolist() == [["T-Shirt", "concept", 1], ["hat", "category", 1]]
    assert labels.attributes.tolist() == [[1, 0], [0, 0], [0, 1]]
    assert "'t shirt' (category)" in labels.notes[0]


def test_names_of_one_family_that_read_alike_are_two_attributes():
    assert labelled(2, Family("concept", [0, 1], ["sea side", "sea-side"])).table["name"].is_unique


def test_a_given_order_is_kept_and_brings_attributes_without_positives():
    family = Family("class", [0, 1], ["b", "c"], order=("c", "b", "a"))
    assert labelled(2, family, min_count=0).table["name"].tolist() == ["c", "b", "a"]
    rare = labelled(2, family)
    assert rare.table["name"].tolist() == ["c", "b"]
    assert "fewer than 1 images: 1" in rare.notes[0]


def test_too_high_a_min_count_names_the_most_frequent_attribute():
    with pytest.raises(AssayError, match=r"min_count=5.*'b' with 2"):
        labelled(3, Family("concept", [0, 1, 2], ["a", "b", "b"]), min_count=5)


def test_blank_captions_are_left_out_and_words_stay_words():
    table = captions_table([("a", "nan"), ("b", " "), ("a", "None")])
    assert table.values.tolist() == [["a", "nan"], ["a", "None"]]
