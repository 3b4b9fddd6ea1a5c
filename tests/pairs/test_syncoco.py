import csv

import pytest

from pipeline.pairs.syncoco import VOCABULARY, pairs

DOG, SOFA = VOCABULARY.index("dog"), VOCABULARY.index("couch")


def row(i, removed, had, has, **changes):
    values = {
        "pair_id": i,
        "orig_image": f"images/{i:06d}_orig.jpg",
        "syn_image": f"images/{i:06d}_syn.jpg",
        "coco_idx": 100 + i,
        "removed_cls_idx": removed,
        "removed_class": VOCABULARY[removed] if removed < 80 else "?",
        "orig_labels": had,
        "syn_labels": has,
    }
    return values | changes


GOOD = row(0, DOG, [0, DOG, SOFA], [0, SOFA])


@pytest.fixture
def root(place):
    return place(*(f"images/{i:06d}_{side}.jpg" for i in range(2) for side in ("orig", "syn")))


def read(root, *rows, attributes=VOCABULARY, **settings):
    with (root / "metadata.csv").open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return pairs(root, attributes=list(attributes), root=root, **settings)


def test_a_pair_removes_one_category_and_adds_none(root):
    found = read(root, GOOD, attributes=["couch", "dog"])
    assert found.table.values.tolist() == [["0", 0, 1, -1, 1, "", "dog", "animal"]]
    assert found.present.tolist() == [[1, 1]]  # person is not the dataset's


def test_the_last_label_may_be_removed(root):
    assert read(root, row(1, SOFA, [SOFA], [])).table["family"].tolist() == ["furniture"]


@pytest.mark.parametrize(
    ("bad", "expected"),
    [
        (row(1, DOG, [0, DOG], [0, DOG]), "no attribute changed"),
        (row(1, DOG, [0, DOG, 5], []), "too many attributes changed"),
        (row(1, DOG, [DOG], [SOFA]), "too many attributes changed"),
        (row(1, DOG, [0, SOFA], [0]), "its labels contradict each other"),
        (row(1, DOG, [0], [0, DOG]), "its labels contradict each other"),
        (row(1, DOG, [DOG], [], removed_class="cat"), "its labels contradict each other"),
        (row(1, 80, [80], []), "attribute id out of range"),
        (row(1, DOG, [DOG], [], orig_image="images/none.jpg"), "missing image"),
    ],
)
def test_what_cannot_be_used_is_left_out_with_its_reason(root, bad, expected):
    found = read(root, GOOD, bad)
    assert found.table["pair_id"].tolist() == ["0"]
    assert found.skipped[["pair_id", "reason"]].values.tolist() == [["1", expected]]
    assert f"left out, {expected}: 1" in found.notes[0]
