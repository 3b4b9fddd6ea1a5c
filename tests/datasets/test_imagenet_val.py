import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.io import savemat

from pipeline.datasets import imagenet_val
from pipeline.datasets.ground_truth import Classes, unique_names
from pipeline.errors import AssayError

TENCH, GOLDFISH, CRANE = "n01440764", "n01443537", "n02012849"
FLAT = ("ILSVRC2012_val_00000001.JPEG", "ILSVRC2012_val_00000002.JPEG", "ILSVRC2012_val_00000003.JPEG")


@pytest.fixture(scope="module")
def classes():
    return Classes.known()


def manifest(root, **settings):
    return imagenet_val.images(root, root=root, **settings).table


def told(root):
    """Return the class name of each image, from the attributes."""
    table = manifest(root)
    labels = imagenet_val.labels(table, root, root=root)
    assert set(labels.table["family"]) == {"class"}
    assert (labels.attributes.sum(axis=1) == 1).all()
    of_image = labels.table["name"].to_numpy()[labels.attributes.argmax(axis=1)].tolist()
    assert labels.captions.values.tolist() == [
        list(pair) for pair in zip(table["image_id"], of_image, strict=True)
    ]
    return dict(zip(table["image_id"], of_image, strict=True))


def write(root, name, text):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return root


def meta(root, order):
    kinds = [("ILSVRC2012_ID", "O"), ("WNID", "O"), ("words", "O"), ("num_children", "O")]
    synsets = np.array([(i, wnid, "x", 0) for i, wnid in enumerate(order, 1)], dtype=kinds)
    savemat(root / "meta.mat", {"synsets": synsets})


def test_there_are_a_thousand_classes_with_a_name_each(classes):
    assert len(set(classes.synsets)) == len(set(classes.names)) == 1000
    assert classes.synsets == tuple(sorted(classes.synsets))
    assert classes.names[:2] == ("tench", "goldfish")
    assert classes.names[639] == "tank suit"
    assert classes.names[134].startswith("crane: large long-necked wading bird")
    assert classes.names[517].startswith("crane: lifts")


def test_a_name_is_the_first_lemma_that_is_nobody_elses():
    lemmas = [["bat", "club"], ["bat"], ["club"], ["cat"]]
    assert unique_names(lemmas, ["a", "b", "c", "d"]) == ("bat: a", "bat: b", "club", "cat")


def test_synset_folders_give_the_class(place):
    root = place(f"val/{GOLDFISH}/{FLAT[0]}", f"val/{TENCH}/{FLAT[1]}", f"train/{TENCH}/{TENCH}_1.JPEG")
    assert told(root) == {"ILSVRC2012_val_00000001": "goldfish", "ILSVRC2012_val_00000002": "tench"}
    assert manifest(root)["path"].tolist()[0].startswith("val/")


def test_a_synset_at_the_end_of_the_file_name_gives_the_class(place):
    assert told(place(f"ILSVRC2012_val_00000007_{GOLDFISH}.JPEG")) == {
        f"ILSVRC2012_val_00000007_{GOLDFISH}": "goldfish"
    }


def test_the_devkits_ids_are_translated_by_meta_mat_and_are_no_synset_order(place):
    root = write(place(*FLAT), "ILSVRC2012_validation_ground_truth.txt", "2\n3\n2\n")
    meta(root, [CRANE, TENCH, GOLDFISH])
    assert list(told(root).values()) == ["tench", "goldfish", "tench"]


def test_the_devkit_without_meta_mat_is_explained(place):
    root = write(place(*FLAT), "ILSVRC2012_validation_ground_truth.txt", "2\n3\n2\n")
    with pytest.raises(AssayError, match=r"own order.*meta\.mat"):
        told(root)
    write(root, "meta.mat", "no mat file")
    with pytest.raises(AssayError, match="is not the devkit's"):
        told(root)


def test_a_devkit_id_that_meta_mat_lacks_is_named(place):
    root = write(place(*FLAT), "ILSVRC2012_validation_ground_truth.txt", "2\n9\n2\n")
    meta(root, [CRANE, TENCH])
    with pytest.raises(AssayError, match="line 2: '9'"):
        told(root)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("val.txt", f"{FLAT[0]} 1\n{FLAT[2]} 0\n{FLAT[1]} 134\n"),
        ("val.txt", f"\ufeffval/{FLAT[0]} {GOLDFISH}\r\n{FLAT[1]} {CRANE}\r\n\r\n{FLAT[2]},{TENCH}"),
        (
            "LOC_val_solution.csv",
            "ImageId,PredictionString\n"
            + "".join(
                f"{stem.removesuffix('.JPEG')},{wnid} 1 2 3 4 {wnid} 5 6 7 8\n"
                for stem, wnid in zip(FLAT, (GOLDFISH, CRANE, TENCH), strict=True)
            ),
        ),
        ("imagenet_2012_validation_synset_labels.txt", f"{GOLDFISH}\n{CRANE}\n{TENCH}\n"),
    ],
)
def test_flat_files_take_their_class_from_the_ground_truth(place, name, text):
    names = list(told(write(place(*FLAT), f"lists/{name}", text)).values())
    assert [word.partition(":")[0] for word in names] == ["goldfish", "crane", "tench"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{FLAT[0]} 1\n{FLAT[1]} 1000\n", "line 2: 1000 is no ImageNet class"),
        (f"{FLAT[0]} n00000000\n", "line 1: 'n00000000' is no ImageNet class"),
        (f"{FLAT[0]}\n", "line 1: .* is not `<file> <class>`"),
        (f"{FLAT[0]} 1\n", "says nothing of the image 'ILSVRC2012_val_00000002'"),
    ],
)
def test_a_val_txt_that_cannot_be_right_is_named(place, text, message):
    with pytest.raises(AssayError, match=message):
        told(write(place(*FLAT), "val.txt", text))


def test_flat_files_without_any_ground_truth_say_what_was_looked_for(place):
    with pytest.raises(AssayError, match=r"val\.txt.*ILSVRC2012_validation_ground_truth\.txt"):
        told(place(*FLAT))


def test_a_folder_that_is_no_class_of_imagenet_is_named(place):
    with pytest.raises(AssayError, match=r"n99999999.*is no ImageNet class"):
        told(place("n99999999/a.JPEG"))


def shard(root, name, cells, **columns):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"image": cells, **columns}), path)


def test_parquet_shards_give_images_and_classes(tmp_path, encoded):
    cells = [{"bytes": encoded(i), "path": f"ILSVRC2012_val_{i:08d}.JPEG"} for i in range(1, 4)]
    shard(tmp_path, "data/validation-00000-of-00002.parquet", cells[:2], label=[1, 0])
    shard(tmp_path, "data/validation-00001-of-00002.parquet", cells[2:], label=[1])
    shard(tmp_path, "data/train-00000-of-00001.parquet", [{"bytes": encoded(9), "path": "x"}], label=[5])
    assert told(tmp_path) == {
        "ILSVRC2012_val_00000001": "goldfish",
        "ILSVRC2012_val_00000002": "tench",
        "ILSVRC2012_val_00000003": "goldfish",
    }


def test_parquet_rows_without_names_are_named_by_file_and_row(tmp_path, encoded):
    shard(tmp_path, "x.parquet", [encoded(0), encoded(1)], cls=[GOLDFISH, TENCH])
    assert told(tmp_path) == {"x.parquet:0": "goldfish", "x.parquet:1": "tench"}


def test_a_shard_without_labels_or_with_a_class_beyond_the_last_is_named(tmp_path, encoded):
    shard(tmp_path, "x.parquet", [encoded(0)], label=[-1])
    with pytest.raises(AssayError, match=r"x\.parquet, row 0, column 'label': -1"):
        told(tmp_path)
    shard(tmp_path, "x.parquet", [encoded(0)], other=[0])
    with pytest.raises(AssayError, match="no label column"):
        told(tmp_path)


def test_a_shard_without_images_is_named(tmp_path):
    pq.write_table(pa.table({"label": [1]}), tmp_path / "x.parquet")
    with pytest.raises(AssayError, match=r"x\.parquet: no column holds images"):
        manifest(tmp_path)


def test_two_files_of_one_stem_are_both_named(place):
    root = place(f"{TENCH}/{FLAT[0]}", f"{GOLDFISH}/{FLAT[0]}")
    with pytest.raises(AssayError, match=rf"{TENCH}.*{GOLDFISH}"):
        manifest(root)


def test_no_image_at_all_names_the_root(tmp_path):
    with pytest.raises(AssayError, match=rf"{tmp_path}.*parquet"):
        manifest(tmp_path)
