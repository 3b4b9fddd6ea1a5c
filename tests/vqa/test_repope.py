import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.datasets.decoding import decode
from pipeline.errors import AssayError
from pipeline.vqa import repope


def line(number, image="COCO_val2014_000000000001.jpg", label="yes", **changes):
    text = "Is there a dog in the image?"
    return {"question_id": number, "image": image, "text": text, "label": label, **changes}


def write(root, lines, subset="popular"):
    (root / "annotations").mkdir(exist_ok=True)
    path = root / "annotations" / f"coco_repope_{subset}.json"
    path.write_text("\n".join(json.dumps(one) for one in lines) + "\n")


@pytest.fixture
def coco(root, encoded):
    (root / "val2014").mkdir()
    for i in (1, 2):
        (root / "val2014" / f"COCO_val2014_{i:012d}.jpg").write_bytes(encoded(i, kind="JPEG"))
    return root


def test_the_three_published_files_are_read_line_by_line(coco, encoded):
    write(coco, [line(1), line(2, "COCO_val2014_000000000002.jpg", "no")])
    write(coco, [line(1)], "random")
    write(coco, [line(1, label="no")], "adversarial")
    (coco / "annotations" / "instances_val2014.json").write_text("{}")
    samples = repope.read(coco)
    assert [(s.sample_id, s.answer, s.category) for s in samples] == [
        ("adversarial-1", "no", "adversarial"),
        ("popular-1", "yes", "popular"),
        ("popular-2", "no", "popular"),
        ("random-1", "yes", "random"),
    ]
    assert samples[2].image().tobytes() == decode(encoded(2, kind="JPEG")).tobytes()
    assert samples[0].question == "Is there a dog in the image?"
    assert repope.read(coco, suffix="One word.")[0].question == "Is there a dog in the image?\nOne word."


@pytest.mark.parametrize("folder", ["images/val2014", "images", "."])
def test_the_images_may_lie_in_any_usual_folder(root, encoded, folder):
    (root / folder).mkdir(parents=True, exist_ok=True)
    (root / folder / "COCO_val2014_000000000001.jpg").write_bytes(encoded(1))
    write(root, [line(1)])
    assert repope.read(root)[0].image().tobytes() == decode(encoded(1)).tobytes()


def test_a_named_folder_of_images_is_the_only_one(coco, encoded, tmp_path):
    other = tmp_path / "coco"
    other.mkdir()
    (other / "COCO_val2014_000000000001.jpg").write_bytes(encoded(7))
    write(coco, [line(1)])
    assert repope.read(coco, images=other)[0].image().tobytes() == decode(encoded(7)).tobytes()
    with pytest.raises(AssayError, match=r"images=.*none is no folder"):
        repope.read(coco, images=tmp_path / "none")


def test_parquet_holds_the_images(root, encoded):
    rows = [line(i, {"bytes": encoded(i), "path": None}) for i in range(3)]
    pq.write_table(pa.Table.from_pylist(rows), root / "random-00000-of-00001.parquet")
    samples = repope.read(root)
    assert [sample.sample_id for sample in samples] == ["random-0", "random-1", "random-2"]
    assert samples[1].image().tobytes() == decode(encoded(1)).tobytes()


def test_an_image_that_is_not_there_names_file_line_and_column(coco):
    write(coco, [line(1), line(2, "COCO_val2014_000000000003.jpg")])
    with pytest.raises(
        AssayError,
        match=r"coco_repope_popular\.json, line 2, column 'image': no file 'COCO_val2014_000000000003",
    ):
        repope.read(coco)


def test_a_broken_image_names_file_line_and_column_when_it_is_read(coco):
    (coco / "val2014" / "COCO_val2014_000000000002.jpg").write_bytes(b"junk")
    write(coco, [line(1), line(2, "COCO_val2014_000000000002.jpg")])
    samples = repope.read(coco)
    with pytest.raises(AssayError, match=r"popular\.json, line 2, column 'image'.*000002\.jpg.*no image"):
        samples[1].image()


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (line(2, label="maybe"), "line 2, column 'label': 'maybe' is not one of yes, no"),
        (line(2, label=None), "line 2, column 'label': None is empty"),
        (line(2, text=""), "line 2, column 'text': '' is empty"),
        (line(1), "'popular-1' stands twice"),
        ({"question_id": 2, "image": "x", "text": "?"}, "line 2: no column 'label'"),
        ([1], "line 2 is no JSON object"),
    ],
)
def test_a_line_that_cannot_be_used_is_named(coco, broken, message):
    write(coco, [line(1), broken])
    with pytest.raises(AssayError) as caught:
        repope.read(coco)
    assert message in str(caught.value)


def test_no_json_an_empty_file_no_file_and_an_unknown_subset_are_named(coco):
    with pytest.raises(AssayError, match="no coco_repope_<subset>"):
        repope.read(coco)
    write(coco, [])
    with pytest.raises(AssayError, match=r"popular\.json has no row"):
        repope.read(coco)
    path = coco / "annotations" / "coco_repope_popular.json"
    path.write_text("{broken\n")
    with pytest.raises(AssayError, match=r"line 1 is not JSON"):
        repope.read(coco)
    path.rename(path.with_name("coco_repope_hard.json"))
    with pytest.raises(AssayError, match="one of the subsets random, popular, adversarial"):
        repope.read(coco)
