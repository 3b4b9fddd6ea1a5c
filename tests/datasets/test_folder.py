import numpy as np
import pytest

from pipeline.datasets import folder
from pipeline.errors import AssayError


def manifest(root, **settings):
    return folder.images(root, root=root, **settings)


def labels(root, **settings):
    return folder.labels(manifest(root, on_bad_image="skip").table, root, root=root, **settings)


def write(root, **sheets):
    for name, text in sheets.items():
        (root / f"{name}.csv").write_bytes(text.encode())
    return root


def names(labels, family):
    return labels.table.query("family == @family")["name"].tolist()


def test_ids_are_paths_from_images_and_paths_are_from_the_root(place):
    table = manifest(place("images/b.png", "images/sub/a.jpg")).table
    assert table["image_id"].tolist() == ["b.png", "sub/a.jpg"]
    assert table["path"].tolist() == ["images/b.png", "images/sub/a.jpg"]
    assert set(table["source"]) == {"root"}


def test_images_beside_the_images_folder_are_told_of(place):
    result = manifest(place("images/a.png", "cover.png"))
    assert result.table["image_id"].tolist() == ["a.png"]
    assert "beside images/ not read: 1; the first: cover.png" in result.notes[0]


def test_names_that_differ_only_in_case_are_two_images_with_a_note(place):
    root = place("images/a.png", "images/A.png")
    result = manifest(root)
    assert result.table["image_id"].tolist() == ["A.png", "a.png"]
    assert "differ only in case: 1" in result.notes[0]
    write(root, concepts="image,concept\na.png,small\nA.png,capital\n")
    assert labels(root).attributes.tolist() == [[1, 0], [0, 1]]


def test_folders_named_after_splits_are_splits(place):
    root = place("train/cat/1.png", "val/cat/2.png", "test/dog/3.png")
    result = manifest(root)
    assert dict(result.table[["image_id", "split"]].values) == {
        "train/cat/1.png": "train",
        "val/cat/2.png": "validation",
        "test/dog/3.png": "test",
    }
    assert names(labels(root), "class") == ["cat", "dog"]


def test_a_folder_beside_train_and_test_makes_them_classes(place):
    root = place("train/1.png", "bus/2.png")
    assert set(manifest(root).table["split"]) == {""}
    assert names(labels(root), "class") == ["bus", "train"]


def test_no_image_names_the_root_and_what_was_looked_for(tmp_path):
    with pytest.raises(AssayError, match=rf"no image \(\*\.png.*below {tmp_path}"):
        manifest(tmp_path)
    with pytest.raises(AssayError, match="there is no folder"):
        manifest(tmp_path / "none")


def test_an_unreadable_image_stops_or_is_skipped(place):
    root = place("images/a.png", "images/b.png")
    (root / "images/b.png").write_bytes((root / "images/b.png").read_bytes()[:60])
    with pytest.raises(AssayError, match=r"images/b\.png"):
        manifest(root)
    result = manifest(root, on_bad_image="skip")
    assert result.skipped["image_id"].tolist() == ["b.png"]
    write(root, images="image,caption\na.png,x\nb.png,y\n", concepts="image,concept\na.png,x\nb.png,z\n")
    found = labels(root)
    assert found.captions.values.tolist() == [["a.png", "x"]]
    assert names(found, "concept") == ["x"]
    assert "left out as unreadable: 1" in " ".join(found.notes)


def test_captions_categories_and_concepts_are_read(place):
    root = write(
        place("images/a.png", "images/b.png", "images/c.png"),
        images='image,caption,category,subcategory,url\r\nb.png,nan,Food,fruit,u\r\na.png,"a, b",Food,\r\n'[
            :-2
        ]
        + ",v\r\n",
        concepts="\ufeffimage,concept\ra.png,red\rb.png,None\rb.png,red\r",
    )
    found = labels(root)
    assert found.captions.values.tolist() == [["b.png", "nan"], ["a.png", "a, b"]]
    assert found.table.values.tolist() == [
        ["None", "concept", 1],
        ["red", "concept", 2],
        ["fruit", "subcategory", 1],
        ["Food", "category", 2],
    ]
    assert found.attributes.tolist() == [[0, 1, 0, 1], [1, 1, 1, 1], [0, 0, 0, 0]]
    notes = " ".join(found.notes)
    assert "columns not used: url" in notes
    assert "says nothing of 1 of 3 images" in notes


def test_a_concept_wins_over_a_category_of_the_same_name(place):
    root = write(
        place("images/a.png", "images/b.png"),
        images="image,category\na.png,Fruit\nb.png,Fruit\n",
        concepts="image,concept\na.png,fruit\n",
    )
    found = labels(root)
    assert found.table.values.tolist() == [["fruit", "concept", 1]]
    assert "'Fruit' (category)" in " ".join(found.notes)


def test_a_repeated_concept_counts_once_with_a_note(place):
    root = write(place("images/a.png"), concepts="image,concept\na.png,x\na.png,x\n")
    found = labels(root)
    assert found.table["count"].tolist() == [1]
    assert "repeat an earlier one: 1; first: line 3" in found.notes[0]


@pytest.mark.parametrize(
    ("sheets", "message"),
    [
        ({"images": "image,caption\na.png,x\n\na.png,y\n"}, r"images\.csv: .*'a\.png'.*lines 2 and 4"),
        ({"images": "image\na.pgn\n"}, r"images\.csv, line 2: .*'a\.pgn'.*nearest: 'a\.png'"),
        ({"concepts": "image,concept\na.png,x\nA.PNG,y\n"}, r"concepts\.csv, line 3: .*nearest: 'a\.png'"),
        ({"concepts": "image,concept\n,y\n"}, r"concepts\.csv, line 2"),
        ({"concepts": "image,concept\na.png,\n"}, r"concepts\.csv, line 2: the concept is blank"),
        ({"concepts": "image,tag\na.png,x\n"}, r"no column 'concept'"),
        ({"images": "file,caption\na.png,x\n"}, r"no column 'image'"),
        ({"images": "image,caption\na.png,x\n"}, r"no attribute at all"),
    ],
)
def test_a_mistake_in_a_sheet_is_named_with_file_and_line(place, sheets, message):
    root = write(place("images/a.png"), **sheets)
    with pytest.raises(AssayError, match=message):
        labels(root)


def test_class_subfolders_give_attribute_and_caption(place):
    found = labels(place("cat/1.png", "cat/deep/2.jpg", "polar bear/3.png"))
    assert found.table.values.tolist() == [["cat", "class", 2], ["polar bear", "class", 1]]
    assert found.captions["caption"].tolist() == ["cat", "cat", "polar bear"]
    assert found.attributes.tolist() == [[1, 0], [1, 0], [0, 1]]


def test_flat_images_have_a_manifest_but_labels_say_what_is_missing(place):
    root = place("a.png", "b.png")
    assert len(manifest(root).table) == 2
    with pytest.raises(AssayError, match=r"no labels: looked for images\.csv.*concepts\.csv.*subfolder"):
        labels(root)


def test_the_emoji_folder_reads_whole(emoji):
    table = manifest(emoji).table
    assert len(table) == 1412
    found = folder.labels(table, emoji, root=emoji, min_count=15)
    concepts = found.table.query("family == 'concept'")
    assert len(concepts) == 85
    assert len(found.captions) == 1412
    assert found.attributes.sum(axis=0).tolist() == found.table["count"].tolist()
    assert np.isin(found.attributes, (0, 1)).all()
    assert found.table["name"].str.casefold().is_unique
