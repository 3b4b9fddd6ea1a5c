import csv

import pytest

from pipeline.errors import AssayError
from pipeline.pairs.syncub import pairs

NAMES = ["has_bill::dagger", "has_bill::hooked", "has_wing::blue", "has_wing::red", "has_size::small"]


def row(i, old, new, had, has, **changes):
    values = {
        "pair_id": i,
        "orig_image": f"images/{i:06d}_orig.jpg",
        "syn_image": f"images/{i:06d}_syn.jpg",
        "class_id": 1,
        "class_name": "Black_footed_Albatross",
        "old_attr": NAMES[old] if 0 <= old < 5 else "?",
        "new_attr": NAMES[new] if 0 <= new < 5 else "?",
        "old_attr_idx": old,
        "new_attr_idx": new,
        "orig_attr_idx": had,
        "syn_attr_idx": has,
    }
    return values | changes


GOOD = (row(0, 0, 1, [0, 2, 4], [1, 2, 4]), row(1, 2, 3, [2], [3]))


@pytest.fixture
def root(place):
    """The hub layout: images, attributes.txt counted from 1, and metadata.csv counted from 0."""
    root = place(*(f"images/{i:06d}_{side}.jpg" for i in range(3) for side in ("orig", "syn")))
    (root / "attributes.txt").write_text("".join(f"{i} {name}\n" for i, name in enumerate(NAMES, 1)))
    return root


def read(root, *rows, attributes=NAMES, **settings):
    with (root / "metadata.csv").open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return pairs(root, attributes=attributes, root=root, **settings)


def reason(found):
    return found.skipped["reason"].tolist()


def test_a_pair_swaps_the_old_attribute_for_the_new_one(root):
    found = read(root, *GOOD)
    assert found.table.values.tolist() == [
        ["0", 0, 1, 1, 0, "has_bill::hooked", "has_bill::dagger", "has_bill"],
        ["1", 2, 3, 3, 2, "has_wing::red", "has_wing::blue", "has_wing"],
    ]
    assert found.present.tolist() == [[1, 0, 1, 0, 1], [0, 0, 1, 0, 0]]
    assert found.manifest.table["image_id"].tolist()[1] == "images/000000_syn.jpg"
    assert found.notes == () and len(found.skipped) == 0


def test_attributes_are_matched_by_name_to_the_datasets_columns(root):
    kept = ["has_wing::red", "has_wing::blue", "has_size::small"]
    found = read(root, *GOOD, attributes=kept)
    assert found.table[["pair_id", "added", "removed"]].values.tolist() == [["1", 0, 1]]
    assert found.present.tolist() == [[0, 1, 0]]
    assert reason(found) == ["attribute that the dataset left out"]


@pytest.mark.parametrize(
    ("bad", "expected", "detail"),
    [
        (row(2, 0, 1, [0], [1, 2]), "too many attributes changed", "3 bits differ"),
        (row(2, 0, 1, [0], [0]), "no attribute changed", "are the same"),
        (row(2, 0, 1, [1], [0]), "its labels contradict each other", "do not lose 0 and gain 1"),
        (row(2, 0, 1, [0], []), "its labels contradict each other", "do not lose 0 and gain 1"),
        (row(2, 0, 5, [0], [5]), "attribute id out of range", "5 is not from 0 to 4"),
        (row(2, -1, 1, [0], [1]), "attribute id out of range", "-1 is not from 0 to 4"),
        (row(2, 0, 1, [0, 312], [1, 312]), "attribute id out of range", "312 is not from 0 to 4"),
        (row(2, 0, 1, [0], [1], new_attr=NAMES[2]), "its labels contradict each other", "other names"),
        (row(2, 0, 1, [0], [1], syn_image="images/none.jpg"), "missing image", "images/none.jpg"),
        (row(0, 0, 1, [0], [1], orig_image="images/000002_orig.jpg"), "pair_id stands twice", "line 2"),
        (row(2, 0, 1, [0], [1], syn_image="images/000002_orig.jpg"), "the two images are the same", "orig"),
    ],
)
def test_what_cannot_be_used_is_left_out_with_its_reason(root, bad, expected, detail):
    found = read(root, *GOOD, bad)
    assert len(found.table) == 2
    assert reason(found) == [expected]
    assert detail in found.skipped["detail"][0]
    assert len(found.notes) == 1 and f"left out, {expected}: 1; the first: {bad['pair_id']}" in found.notes[0]


def test_images_of_different_size_are_left_out_or_kept_and_counted_either_way(root, place):
    place("images/000001_syn.jpg", size=(9, 6))
    found = read(root, *GOOD)
    assert reason(found) == ["images differ in size"]
    assert "8 x 6 and 9 x 6 pixels" in found.skipped["detail"][0]
    assert found.table["pair_id"].tolist() == ["0"]
    assert found.manifest.table["image_id"].tolist() == ["images/000000_orig.jpg", "images/000000_syn.jpg"]
    kept = read(root, *GOOD, other_size="keep")
    assert len(kept.table) == 2
    assert kept.notes == ("pairs kept though their images differ in size: 1",)


def test_an_unreadable_image_leaves_its_pair_out(root):
    (root / "images/000001_syn.jpg").write_bytes(b"no image")
    found = read(root, *GOOD)
    assert reason(found) == ["unreadable image"]
    assert "images/000001_syn.jpg" in found.skipped["detail"][0]


def test_where_no_pair_is_left_every_reason_is_counted(root):
    bad = [row(i, 0, 1, [0], [0]) for i in range(2)]
    with pytest.raises(
        AssayError, match=r"none of 3 pairs can be used: .*no attribute changed: 2.*missing image: 1"
    ):
        read(root, *bad, row(2, 0, 1, [0], [1], syn_image="images/none.jpg"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"orig_attr_idx": "[0, x]"}, r"line 2, column 'orig_attr_idx': '\[0, x\]' is no list"),
        ({"old_attr_idx": "0.5"}, r"line 2, column 'old_attr_idx'"),
        ({"old_attr_idx": ""}, r"line 2, column 'old_attr_idx': '' is not one whole number"),
        ({"orig_image": "../outside.jpg"}, r"line 2, column 'orig_image': '\.\./outside\.jpg'"),
        ({"pair_id": ""}, r"line 2: its pair_id is blank"),
    ],
)
def test_a_cell_that_cannot_be_read_stops_with_its_place(root, changes, message):
    with pytest.raises(AssayError, match=message):
        read(root, row(2, 0, 1, [0], [1], **changes))


def test_attributes_txt_must_count_from_one_on(root):
    (root / "attributes.txt").write_text("0 a\n1 b\n")
    with pytest.raises(AssayError, match=r"attributes\.txt: its 2 attributes are not numbered from 1 on"):
        read(root, *GOOD)


def test_a_missing_root_or_column_is_named(root, tmp_path):
    with pytest.raises(AssayError, match=r"pairs\.root=.*no folder"):
        pairs(tmp_path, attributes=NAMES, root=tmp_path / "none")
    (root / "metadata.csv").write_text("pair_id,orig_image\n")
    with pytest.raises(AssayError, match="no column 'syn_image'"):
        pairs(root, attributes=NAMES, root=root)
