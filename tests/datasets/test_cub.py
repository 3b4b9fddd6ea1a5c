import shutil

import pytest

from pipeline.datasets import cub
from pipeline.errors import AssayError

ATTRIBUTES = "1 has_bill_shape::dagger\n2 has_bill_shape::hooked_(seabird)\n3 has_wing_color::blue\n"
CLASSES = "1 001.Black_footed_Albatross\n2 002.Laysan_Albatross\n"
N = 12


def image(i):
    folder = "001.Black_footed_Albatross" if i <= N // 2 else "002.Laysan_Albatross"
    return f"{folder}/Bird_{i:04d}.jpg"


@pytest.fixture
def root(place):
    """The official archive, unpacked: attributes.txt beside CUB_200_2011; image i has attribute i % 3 + 1."""
    root = place(*(f"CUB_200_2011/images/{image(i)}" for i in range(1, N + 1)))
    base = root / "CUB_200_2011"
    (base / "attributes").mkdir()
    numbers = range(1, N + 1)
    (base / "images.txt").write_text("".join(f"{i} {image(i)}\n" for i in numbers))
    (base / "classes.txt").write_text(CLASSES)
    (base / "image_class_labels.txt").write_text("".join(f"{i} {1 + (i > N // 2)}\n" for i in numbers))
    (base / "train_test_split.txt").write_text("".join(f"{i} {i % 2}\n" for i in numbers))
    (base / "attributes" / "image_attribute_labels.txt").write_text(
        "".join(f"{i} {a} {int(a == i % 3 + 1)} 3 1.5\n" for i in numbers for a in (1, 2, 3))
    )
    (root / "attributes.txt").write_text(ATTRIBUTES)
    return root


def manifest(root, **settings):
    return cub.images(root, root=root, **settings)


def labels(root, **settings):
    return cub.labels(manifest(root, on_bad_image="skip").table, root, root=root, **settings)


def answers(root, text, mode="a"):
    with (root / "CUB_200_2011/attributes/image_attribute_labels.txt").open(mode) as stream:
        stream.write(text)
    return root


def held(found, i, name):
    return found.attributes[i - 1, found.table["name"].tolist().index(name)]


def test_images_stand_in_the_order_of_images_txt_with_ids_from_it(root):
    table = manifest(root).table
    assert table["image_id"].tolist() == [image(i) for i in range(1, N + 1)]
    assert table["path"][0] == f"CUB_200_2011/images/{image(1)}"


def test_the_official_test_images_are_test_and_a_third_of_each_training_class_validation(root):
    table = manifest(root, validation_share=1 / 3).table
    split = dict(zip(table["image_id"], table["split"], strict=True))
    assert {split[image(i)] for i in range(2, N + 1, 2)} == {"test"}
    for first in (1, 7):
        assert sorted(split[image(i)] for i in range(first, first + 6, 2)) == ["train", "train", "validation"]
    other = manifest(root, validation_share=1 / 3, validation_seed=1).table
    assert set(other["split"]) == {"train", "validation", "test"}
    assert other["split"].tolist() != table["split"].tolist()


@pytest.mark.parametrize("where", ["CUB_200_2011/attributes", "CUB_200_2011", "."])
def test_attributes_are_found_in_each_of_their_places(root, where):
    shutil.move(root / "attributes.txt", root / where / "attributes.txt")
    assert labels(root).table["name"].tolist() == [
        "has_bill_shape::dagger",
        "has_bill_shape::hooked_(seabird)",
        "has_wing_color::blue",
    ]


def test_the_inner_folder_is_a_root_as_well_with_attributes_one_level_up(root):
    found = labels(root / "CUB_200_2011")
    assert found.attributes.tolist() == labels(root).attributes.tolist()
    assert found.attributes.tolist()[:3] == [[0, 1, 0], [0, 0, 1], [1, 0, 0]]
    assert found.table["family"].tolist() == ["has_bill_shape", "has_bill_shape", "has_wing_color"]
    assert found.table["count"].tolist() == [4, 4, 4]


def test_the_class_is_the_caption(root):
    assert labels(root).captions.values.tolist()[0] == [image(1), "Black footed Albatross"]


def test_lines_with_other_than_five_fields_are_dropped_and_counted(root):
    found = labels(answers(root, "1 1 1 0 3 2.5\n2 1 1\n\n"))
    assert held(found, 1, "has_bill_shape::dagger") == held(found, 2, "has_bill_shape::dagger") == 0
    assert f"other than 5 fields, dropped: 2; first: line {3 * N + 1}" in " ".join(found.notes)


def test_of_two_lines_on_one_attribute_the_last_counts(root):
    found = labels(answers(root, "1 1 1 4 2.0\n1 2 0 4 2.0\n"))
    assert found.attributes[0].tolist() == [1, 0, 0]
    assert "which they replace: 2; first: line 37" in " ".join(found.notes)


def test_what_no_line_tells_is_absent_and_counted(root):
    found = labels(answers(root, "1 1 1 4 2.0\n2 3 1 4 1.0\n", mode="w"))
    assert found.attributes[:2].tolist() == [[1, 0], [0, 1]]
    assert f"counted as absent: {3 * N - 2}" in " ".join(found.notes)


def test_an_attribute_below_the_certainty_is_absent_and_counted(root):
    root = answers(root, "1 1 1 2 1.0\n2 1 1 3 1.0\n")
    assert held(labels(root, min_certainty=2), 1, "has_bill_shape::dagger") == 1
    found = labels(root, min_certainty=3)
    assert held(found, 1, "has_bill_shape::dagger") == 0
    assert held(found, 2, "has_bill_shape::dagger") == 1
    assert "certainty below 3, counted as absent: 1; first: line 37" in " ".join(found.notes)
    with pytest.raises(AssayError, match="min_certainty=5"):
        labels(root, min_certainty=5)


@pytest.mark.parametrize("line", ["99 1 1 3 1.0", "1 9 1 3 1.0", "1 1 2 3 1.0", "1 1 1 9 1.0", "a 1 1 3 1.0"])
def test_a_line_whose_values_cannot_be_is_named(root, line):
    with pytest.raises(AssayError, match=rf"image_attribute_labels\.txt, line 37: '{line}'"):
        labels(answers(root, f"{line}\n"))


def test_a_missing_image_stops_or_is_left_out_with_its_labels(root):
    (root / "CUB_200_2011/images" / image(3)).unlink()
    with pytest.raises(AssayError, match=image(3)):
        manifest(root)
    result = manifest(root, on_bad_image="skip")
    assert result.skipped["image_id"].tolist() == [image(3)]
    found = labels(root)
    assert len(found.attributes) == N - 1
    assert found.attributes[2].tolist() == [0, 1, 0]  # image 4: its own row, not the missing one's


def test_images_that_the_list_does_not_name_are_told_of(root):
    extra = root / "CUB_200_2011/images/001.Black_footed_Albatross/extra.jpg"
    shutil.copy(root / "CUB_200_2011/images" / image(1), extra)
    assert "images.txt does not name, not read: 1" in manifest(root).notes[0]


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("train_test_split.txt", "1 1\n", r"train_test_split\.txt says nothing of 11 of 12 images"),
        ("train_test_split.txt", "1 2\n", r"line 1: `1 2`"),
        ("image_class_labels.txt", "99 1\n", r"line 1: `99 1`"),
        ("image_class_labels.txt", "1 1\n1 1\n", r"line 2: 1 stands there twice"),
        ("images.txt", "1\n", r"images\.txt, line 1"),
        ("images.txt", "1 a.jpg\n1 b.jpg\n", r"line 2: 1 or 'b\.jpg' stands there twice"),
    ],
)
def test_a_list_that_is_not_whole_is_named_with_its_line(root, file, text, message):
    (root / "CUB_200_2011" / file).write_text(text)
    with pytest.raises(AssayError, match=message):
        manifest(root)


def test_a_root_without_the_archive_says_what_was_looked_for(tmp_path):
    with pytest.raises(AssayError, match=r"no images\.txt in .*CUB_200_2011\.tgz"):
        manifest(tmp_path)


def test_without_attributes_txt_all_its_places_are_named(root):
    (root / "attributes.txt").unlink()
    with pytest.raises(AssayError, match=r"no attributes\.txt; looked for .*attributes/attributes\.txt"):
        labels(root)
