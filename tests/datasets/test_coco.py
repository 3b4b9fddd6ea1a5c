import json

import pytest

from pipeline.datasets import coco
from pipeline.datasets.coco_categories import CATEGORIES
from pipeline.errors import AssayError

KINDS = [
    {"id": 18, "name": "dog", "supercategory": "animal"},
    {"id": 1, "name": "person", "supercategory": "person"},
    {"id": 17, "name": "cat", "supercategory": "animal"},
]
SQUARE = [[1.0, 1.0, 5.0, 1.0, 5.0, 4.0, 1.0, 4.0]]


def annotation(image, kind, box=(1, 1, 4, 3), segmentation=SQUARE, iscrowd=0):
    return {
        "image_id": image,
        "category_id": kind,
        "bbox": list(box),
        "segmentation": segmentation,
        "iscrowd": iscrowd,
    }


def write(root, name, images, annotations, kinds=KINDS):
    listed = [{"id": i, "file_name": f"{i:012d}.jpg", "height": 6, "width": 8} for i in images]
    path = root / "annotations" / f"instances_{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"images": listed, "annotations": annotations, "categories": kinds}))
    return root


@pytest.fixture
def root(place):
    """Official layout: three training images (one without annotations) and four of val2017."""
    root = place(
        *(f"train2017/{i:012d}.jpg" for i in (9, 25, 30)), *(f"val2017/{i:012d}.jpg" for i in range(1, 5))
    )
    write(root, "train2017", [25, 9, 30], [annotation(9, 18), annotation(9, 18), annotation(25, 1)])
    return write(root, "val2017", range(1, 5), [annotation(i, 17) for i in range(1, 5)])


def manifest(root, **settings):
    return coco.images(root, root=root, **settings)


def labels(root, **settings):
    return coco.labels(manifest(root, on_bad_image="skip").table, root, root=root, **settings)


def told(found, root):
    ids = manifest(root, on_bad_image="skip").table["image_id"]
    names = found.table["name"].to_numpy()
    return {
        image_id: names[row.astype(bool)].tolist()
        for image_id, row in zip(ids, found.attributes, strict=True)
    }


def test_images_come_by_part_and_number_and_those_without_annotations_are_left_out(root):
    result = manifest(root)
    assert result.table["image_id"].tolist()[:3] == [
        "train2017/000000000009.jpg",
        "train2017/000000000025.jpg",
        "val2017/000000000001.jpg",
    ]
    assert "train2017: images without annotations left out: 1 of 3" in result.notes


def test_val2017_is_halved_into_validation_and_test(root):
    table = manifest(root).table
    assert table["split"].value_counts().to_dict() == {"train": 2, "validation": 2, "test": 2}
    assert set(table["split"][:2]) == {"train"}
    halves = {tuple(manifest(root, validation_seed=seed).table["split"]) for seed in range(8)}
    assert len(halves) > 1
    assert manifest(root).table.equals(table)


def test_images_may_lie_in_a_folder_images(root):
    for name in ("train2017", "val2017"):
        (root / "images").mkdir(exist_ok=True)
        (root / name).rename(root / "images" / name)
    table = manifest(root).table
    assert table["path"][0] == "images/train2017/000000000009.jpg"
    assert table["image_id"][0] == "train2017/000000000009.jpg"


def test_categories_are_in_the_order_of_their_ids_with_supercategories_as_families(root):
    found = labels(root)
    assert found.table.values.tolist() == [
        ["person", "person", 1],
        ["cat", "animal", 4],
        ["dog", "animal", 1],
    ]
    assert told(found, root)["train2017/000000000009.jpg"] == ["dog"]
    assert told(found, root)["val2017/000000000003.jpg"] == ["cat"]


def test_a_box_without_width_or_height_is_no_label_and_is_counted(root):
    flat = [annotation(9, 1, (1, 1, 0, 3)), annotation(9, 17, (1, 1, 3, 0)), annotation(25, 1)]
    root = write(root, "train2017", [9, 25], flat)
    found = labels(root)
    assert told(found, root)["train2017/000000000009.jpg"] == []
    assert (
        "train2017: labels whose annotations are all without positive width and height, not counted: 2"
        in found.notes
    )


def test_an_image_that_has_only_flat_boxes_stays_in(root):
    root = write(root, "train2017", [9], [annotation(9, 1, (1, 1, 0, 0))])
    assert manifest(root).table["image_id"].tolist()[0] == "train2017/000000000009.jpg"


def test_crowds_count_and_an_empty_mask_counts_unless_masks_must_have_a_pixel(root):
    sliver = [[1.1, 1.1, 1.2, 1.1, 1.2, 1.2]]
    crowd = {"counts": [10, 4, 34], "size": [6, 8]}
    empty = {"counts": [48], "size": [6, 8]}
    marks = [annotation(9, 1, segmentation=sliver), annotation(9, 18, segmentation=crowd, iscrowd=1)]
    root = write(root, "train2017", [9], [*marks, annotation(9, 17, segmentation=empty, iscrowd=1)])
    assert told(labels(root), root)["train2017/000000000009.jpg"] == ["person", "cat", "dog"]
    found = labels(root, masks="non_empty", min_count=0)
    assert told(found, root)["train2017/000000000009.jpg"] == ["dog"]
    assert "with an empty mask, not counted: 2" in " ".join(found.notes)


def test_an_annotation_without_segmentation_has_its_box_as_mask(root):
    marks = [annotation(9, 1, segmentation=[]), annotation(9, 18, box=(8.5, 1, 3, 3), segmentation=[])]
    root = write(root, "train2017", [9], marks)
    found = labels(root, masks="non_empty", min_count=0)
    assert told(found, root)["train2017/000000000009.jpg"] == ["person"]


def test_captions_are_read_where_there_are_any(root):
    images = [{"id": 9, "file_name": "000000000009.jpg"}, {"id": 30, "file_name": "000000000030.jpg"}]
    content = {
        "images": images,
        "annotations": [{"image_id": 9, "caption": "A dog\nruns "}, {"image_id": 30, "caption": "left out"}],
    }
    (root / "annotations/captions_train2017.json").write_text(json.dumps(content))
    assert labels(root).captions.values.tolist() == [["train2017/000000000009.jpg", "A dog runs"]]


def test_one_part_alone_is_read_and_the_other_told_of(root):
    (root / "annotations/instances_train2017.json").unlink()
    result = manifest(root)
    assert set(result.table["split"]) == {"validation", "test"}
    assert "instances_train2017.json: train2017 is not read" in result.notes[0]


def test_annotations_without_their_images_are_explained(root):
    (root / "train2017").rename(root / "elsewhere")
    with pytest.raises(
        AssayError, match=r"neither .*train2017 nor .*images/train2017; unpack train2017\.zip"
    ):
        manifest(root)


def test_a_missing_image_stops_or_is_left_out(root):
    (root / "val2017/000000000002.jpg").unlink()
    with pytest.raises(AssayError, match=r"val2017/000000000002\.jpg"):
        manifest(root)
    assert manifest(root, on_bad_image="skip").skipped["image_id"].tolist() == ["val2017/000000000002.jpg"]
    assert len(labels(root).attributes) == 5


@pytest.mark.parametrize(
    ("images", "annotations", "kinds", "message"),
    [
        ([9], [annotation(7, 1)], KINDS, r"annotations\[0\]: .*7"),
        ([9], [annotation(9, 5)], KINDS, r"annotations\[0\]: .*5"),
        ([9], [annotation(9, 1, (1, 2))], KINDS, r"annotations\[0\]: .*bbox"),
        ([9], [annotation(9, 1)], [*KINDS, KINDS[0]], "two categories have one id"),
        ([9, 9], [annotation(9, 1)], KINDS, "two images have one id"),
        ([9], [annotation(9, 1)], KINDS[:2], "name their categories differently"),
    ],
)
def test_what_is_not_cocos_is_named(root, images, annotations, kinds, message):
    write(root, "train2017", images, annotations, kinds)
    with pytest.raises(AssayError, match=message):
        labels(root)


def test_a_broken_file_and_an_empty_root_are_named(root, tmp_path):
    (root / "annotations/instances_val2017.json").write_text('{"images": [')
    with pytest.raises(AssayError, match=r"instances_val2017\.json is no JSON file"):
        manifest(root)
    (root / "annotations/instances_val2017.json").write_text('{"images": []}')
    with pytest.raises(AssayError, match="no list 'annotations'"):
        manifest(root)
    (tmp_path / "empty").mkdir()
    with pytest.raises(AssayError, match=r"annotations_trainval2017\.zip"):
        manifest(tmp_path / "empty")


def test_a_mask_of_another_form_is_refused_where_masks_matter(root):
    write(root, "train2017", [9], [annotation(9, 1, segmentation={"counts": "abc", "size": [6, 8]})])
    assert labels(root).table["name"].tolist() == ["person", "cat"]
    with pytest.raises(AssayError, match=r"annotations\[0\]: its segmentation is neither"):
        labels(root, masks="non_empty")


def test_there_are_eighty_categories_in_the_order_of_cocos_ids():
    names = [name for group in CATEGORIES.values() for name in group]
    assert len(set(names)) == 80
    assert [names[i] for i in (0, 13, 14, 39, 62, 79)] == [
        "person", "bench", "bird", "bottle", "tv", "toothbrush",
    ]  # fmt: skip
