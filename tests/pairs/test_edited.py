import pytest

from pipeline.errors import AssayError
from pipeline.pairs.edited import pairs

ATTRIBUTES = ["red", "blue", "striped", "hat"]


@pytest.fixture
def root(place):
    return place("a.png", *(f"edits/{i}.png" for i in range(5)))


def read(root, text, **settings):
    (root / "pairs.csv").write_text(text)
    return pairs(root, attributes=ATTRIBUTES, root=root, **settings)


def test_one_image_may_stand_before_several_edits_and_is_listed_once(root):
    found = read(
        root,
        "pair_id,before,after,removed,added,present\n"
        'x,a.png,edits/0.png,red,blue,"red; striped"\n'
        "y,a.png,edits/1.png,red,,red;striped\n"
        "z,a.png,edits/2.png,,hat,red; striped;\n",
    )
    assert found.table[["before", "after", "added", "removed"]].values.tolist() == [
        [0, 1, 1, 0],
        [0, 2, -1, 0],
        [0, 3, 3, -1],
    ]
    assert found.table["added_name"].tolist() == ["blue", "", "hat"]
    assert found.manifest.table["image_id"].tolist() == ["a.png", *(f"edits/{i}.png" for i in range(3))]
    assert found.present.tolist() == [[1, 0, 1, 0]] * 3
    assert found.notes == ()


def test_without_present_only_the_removed_attribute_is_known_and_a_note_says_so(root):
    found = read(root, "pair_id,before,after,removed,added\nx,a.png,edits/0.png,red,blue\n")
    assert found.present.tolist() == [[1, 0, 0, 0]]
    assert "no column 'present'" in found.notes[0]


def test_only_accepted_pairs_are_used(root):
    found = read(
        root,
        "pair_id,before,after,removed,added,present,accepted\n"
        "x,a.png,edits/0.png,red,blue,red,Yes\n"
        "y,a.png,edits/1.png,red,blue,red,no\n"
        "z,a.png,edits/2.png,red,blue,red,\n",
    )
    assert found.table["pair_id"].tolist() == ["x"]
    assert found.skipped[["pair_id", "reason"]].values.tolist() == [
        ["y", "not accepted"],
        ["z", "not judged yet"],
    ]


@pytest.mark.parametrize(
    ("cells", "expected", "detail"),
    [
        ("edits/1.png,,,red", "no attribute changed", "neither"),
        ('edits/1.png,red,"blue; hat",red', "too many attributes changed", "added names 2"),
        ("edits/1.png,red;striped,,red;striped", "too many attributes changed", "removed names 2"),
        ("edits/1.png,red,bleu,red", "unknown attribute", "'bleu'; nearest: 'blue'"),
        ("edits/1.png,red,red,red", "its labels contradict each other", "both added and removed"),
        ("edits/1.png,red,blue,striped", "its labels contradict each other", "was not present"),
        ("edits/1.png,red,striped,red;striped", "its labels contradict each other", "present before"),
        ("edits/9.png,red,blue,red", "missing image", "edits/9.png"),
    ],
)
def test_what_cannot_be_used_is_left_out_with_its_reason(root, cells, expected, detail):
    good = "x,a.png,edits/0.png,red,blue,red\n"
    found = read(root, f"pair_id,before,after,removed,added,present\n{good}y,a.png,{cells}\n")
    assert found.table["pair_id"].tolist() == ["x"]
    assert found.skipped["reason"].tolist() == [expected]
    assert "line 3" in found.skipped["detail"][0] and detail in found.skipped["detail"][0]


def test_an_accepted_of_another_word_stops_with_its_line(root):
    with pytest.raises(AssayError, match=r"line 2: accepted is 'maybe'"):
        read(root, "pair_id,before,after,removed,added,accepted\nx,a.png,edits/0.png,red,blue,maybe\n")
