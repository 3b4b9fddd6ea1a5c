import csv

import pytest

from pipeline.errors import AssayError
from pipeline.pairs.edited import pairs
from pipeline.pairs.editing import make_pairs, read_attributes


def rows(root):
    with (root / "pairs.csv").open(newline="") as stream:
        return list(csv.DictReader(stream))


def metadata(root, text):
    (root / "metadata.csv").write_text(text)
    return root


@pytest.fixture
def folder(place):
    return place("a.png", "b.png", "edits/a.png", "edits/b.png", "edits/c.png")


def test_a_folder_with_metadata_becomes_pairs_that_the_source_edited_reads(folder, tmp_path):
    text = (
        "before,after,removed,added,present\na.png,edits/a.png,red,blue,red; big\n"
        "a.png,edits/b.png,,hat,red\n"
    )
    made = make_pairs(metadata(folder, text), tmp_path / "out")
    found = pairs(tmp_path, attributes=["red", "blue", "hat", "big"], root=tmp_path / "out")
    assert found.table[["pair_id", "added_name", "removed_name"]].values.tolist() == [
        ["000000", "blue", "red"],
        ["000001", "hat", ""],
    ]
    assert found.present.tolist() == [[1, 0, 0, 1], [1, 0, 0, 0]]
    assert found.manifest.table["checksum"].tolist() == made.manifest.table["checksum"].tolist()
    assert not (tmp_path / "out/left_out.csv").exists()


def test_images_keep_their_bytes_and_are_copied_once(folder, tmp_path):
    text = "before,after,removed,added\na.png,edits/a.png,red,blue\na.png,edits/b.png,red,\n"
    make_pairs(metadata(folder, text), tmp_path / "out")
    first, second = rows(tmp_path / "out")
    assert first["before"] == second["before"]
    assert (tmp_path / "out" / first["before"]).read_bytes() == (folder / "a.png").read_bytes()
    assert len(list((tmp_path / "out/images").iterdir())) == 3
    assert "present" not in first


def test_subfolders_named_after_their_change_are_read(place, tmp_path):
    folder = place(
        "removed=red,added=blue/before/1.png",
        "removed=red,added=blue/after/1.jpg",
        "removed=hat/before/x/2.png",
        "removed=hat/after/x/2.png",
        "added=has_bill::a,b/before/3.png",
        "added=has_bill::a,b/after/3.png",
        "added=has_bill::a,b/after/4.png",
        "notes/before/5.png",
    )
    found = make_pairs(folder, tmp_path / "out")
    assert [(row["pair_id"], row["removed"], row["added"]) for row in rows(tmp_path / "out")] == [
        ("added=has_bill::a,b/3", "", "has_bill::a,b"),
        ("removed=hat/x/2", "hat", ""),
        ("removed=red,added=blue/1", "red", "blue"),
    ]
    assert "name is no change, not read: 1; the first: notes" in found.notes[0]
    assert "in only one of before/ and after/: 1: 4" in found.notes[1]


def test_what_cannot_be_used_is_written_to_left_out(folder, place, tmp_path):
    place("edits/c.png", size=(9, 9))
    text = (
        "pair_id,before,after,removed,added,editor\nx,a.png,edits/a.png,red,blue,me\n"
        "y,a.png,edits/c.png,red,blue,me\nz,a.png,edits/none.png,red,blue,me\nw,a.png,edits/b.png,,,me\n"
    )
    found = make_pairs(metadata(folder, text), tmp_path / "out")
    assert [row["pair_id"] for row in rows(tmp_path / "out")] == ["x"]
    with (tmp_path / "out/left_out.csv").open(newline="") as stream:
        reasons = {row["pair_id"]: row["reason"] for row in csv.DictReader(stream)}
    assert reasons == {"y": "images differ in size", "z": "missing image", "w": "no attribute changed"}
    assert "columns not used: editor" in found.notes[0]
    assert len(list((tmp_path / "out/images").iterdir())) == 2
    make_pairs(folder, tmp_path / "kept", other_size="keep")
    assert [row["pair_id"] for row in rows(tmp_path / "kept")] == ["x", "y"]


def test_attributes_that_may_not_be_named_are_left_out(folder, tmp_path):
    text = "before,after,removed,added\na.png,edits/a.png,red,blue\nb.png,edits/b.png,red,bleu\n"
    (tmp_path / "names.txt").write_text("red\nblue\n\n")
    names = read_attributes(tmp_path / "names.txt")
    found = make_pairs(metadata(folder, text), tmp_path / "out", attributes=names)
    assert found.skipped[["pair_id", "reason"]].values.tolist() == [["000001", "unknown attribute"]]
    (tmp_path / "names.txt").write_text("red; blue\n")
    with pytest.raises(AssayError, match="one a line"):
        read_attributes(tmp_path / "names.txt")


def test_a_folder_that_holds_something_is_never_overwritten(folder, tmp_path):
    metadata(folder, "before,after,removed,added\na.png,edits/a.png,red,blue\n")
    (tmp_path / "out").mkdir()
    make_pairs(folder, tmp_path / "out")
    before = rows(tmp_path / "out")
    with pytest.raises(AssayError, match="exists and is not empty"):
        make_pairs(folder, tmp_path / "out")
    assert rows(tmp_path / "out") == before


def test_where_nothing_can_be_used_nothing_is_written(folder, tmp_path):
    metadata(folder, "before,after,removed,added\na.png,none.png,red,blue\n")
    with pytest.raises(AssayError, match=r"none of 1 pairs can be used: .*missing image: 1"):
        make_pairs(folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_in_neither_layout_says_what_is_looked_for(place, tmp_path):
    with pytest.raises(AssayError, match=r"no metadata\.csv .*removed=red,added=blue"):
        make_pairs(place("a.png"), tmp_path / "out")
