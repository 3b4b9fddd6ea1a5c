"""Files that would run code or lead elsewhere, given to the loaders that users' files reach."""

import io
import json
import pickle
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image
from torch import nn

from pipeline.datasets import coco, cub, folder, parquet
from pipeline.datasets.ground_truth import Classes, ground_truth
from pipeline.errors import AssayError
from pipeline.foreign.arrays import drawn_activations
from pipeline.ingest.long_table import read_parquet
from pipeline.ingest.sheets import File
from pipeline.matching.probe import load_probe
from pipeline.models import open_clip, timm, torchvision, weights
from pipeline.saes import file as sae_file
from pipeline.scorers import dino_text_weights, siglip_tiny
from pipeline.scorers import open_clip as open_clip_scorer
from pipeline.stages.tables import read_array, read_table
from pipeline.vlms import tiny_llava
from pipeline.vqa import repope


class Evil:
    """What a pickle of it does when it is loaded: it makes the file `mark`."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.mark,)


@pytest.fixture
def mark(tmp_path: Path):
    """A file that exists at the end of no test."""
    path = tmp_path / "ran"
    yield path
    assert not path.exists(), "the file's code ran"


def zipped(mark: Path) -> bytes:
    stream = io.BytesIO()
    torch.save({"w": torch.zeros(1), "e": Evil(mark)}, stream)
    return stream.getvalue()


def legacy(mark: Path) -> bytes:
    stream = io.BytesIO()
    torch.save({"e": Evil(mark)}, stream, _use_new_zipfile_serialization=False)
    return stream.getvalue()


def bare(mark: Path) -> bytes:
    return pickle.dumps(Evil(mark))


def tarred(mark: Path) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name in ("sys_info", "pickle", "tensors", "storages"):
            member = tarfile.TarInfo(name)
            member.size = len(bare(mark))
            archive.addfile(member, io.BytesIO(bare(mark)))
    return stream.getvalue()


def scripted(mark: Path) -> bytes:
    stream = io.BytesIO()
    torch.jit.save(torch.jit.script(nn.Linear(2, 2)), stream)
    return stream.getvalue()


def climbing(mark: Path) -> bytes:
    """A zip whose members would lie elsewhere if it were unpacked."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name in ("archive/data.pkl", "../../ran", str(mark)):
            archive.writestr(name, bare(mark))
        archive.writestr("archive/version", "3\n")
    return stream.getvalue()


DRAWS = pd.DataFrame({"unit": [0], "image_id": ["i"]})
PAYLOADS = [zipped, legacy, bare, tarred, scripted, climbing]
ARCH = {"timm": "test_efficientnet", "torchvision": "squeezenet1_1", "open_clip": "ViT-B-32"}


def from_file(path: Path, match: str = "name") -> dict[str, Any]:
    return {"source": "file", "path": path, "match": match}


def sae_folder(path: Path, config: str, weights_name: str) -> Path:
    own = path.with_suffix(".sae")
    own.mkdir()
    (own / config).write_text(
        json.dumps({"trainer": {"dict_class": "AutoEncoderTopK"}, "architecture": "topk"})
    )
    (own / weights_name).write_bytes(path.read_bytes())
    return own


def tiny_llava_folder(path: Path) -> Path:
    own = path.with_suffix(".vlm")
    own.mkdir()
    shape = tiny_llava.TinyShape(words=("a",))
    tiny_llava.write_json(own / tiny_llava.FACTS, {**shape.__dict__, "words": ["a"]})
    (own / tiny_llava.WEIGHTS).write_bytes(path.read_bytes())
    return own


LOADERS: dict[str, Callable[[Path], object]] = {
    "weights": weights.read,
    "timm by name": lambda p: timm.load(arch=ARCH["timm"], weights=from_file(p), input_size=None),
    "timm by order": lambda p: timm.load(arch=ARCH["timm"], weights=from_file(p, "order"), input_size=None),
    "torchvision": lambda p: torchvision.load(
        arch=ARCH["torchvision"], weights=from_file(p), input_size=None
    ),
    "open_clip model": lambda p: open_clip.load(arch="RN50-quickgelu", weights=from_file(p), input_size=None),
    "open_clip scorer": lambda p: open_clip_scorer.load(
        arch="RN50-quickgelu", weights=from_file(p), template="{}"
    ),
    "dino backbone": lambda p: dino_text_weights.load_network("vit_small_patch16_dinov3", from_file(p)),
    "dino heads": lambda p: dino_text_weights.load_heads(from_file(p), 384),
    "siglip_tiny": siglip_tiny.load,
    "probe": load_probe,
    "sae file": lambda p: sae_file.build(4, path=p, format="assay"),
    "sae-lens": lambda p: sae_file.build(4, path=sae_folder(p, "cfg.json", "sae_weights.safetensors")),
    "dictionary_learning": lambda p: sae_file.build(4, path=sae_folder(p, "config.json", "ae.pt")),
    "tiny_llava": lambda p: tiny_llava.load(weights={"source": "folder", "path": tiny_llava_folder(p)}),
}


SLOW = ("open_clip model", "open_clip scorer")
"""Loaders that build a large model first."""
CASES = [
    pytest.param(loader, payload, marks=[pytest.mark.long] if loader in SLOW and payload != zipped else [])
    for loader in LOADERS
    for payload in PAYLOADS
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("loader", "payload"), CASES)
def test_no_loader_of_weights_runs_a_files_code(
    loader: str, payload: Callable[[Path], bytes], tmp_path: Path, mark: Path
) -> None:
    path = tmp_path / "evil.pt"
    path.write_bytes(payload(mark))
    with pytest.raises(AssayError):
        LOADERS[loader](path)


def test_the_payloads_would_run_where_they_are_unpickled(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    pickle.loads(bare(mark))
    assert mark.exists()


def test_downloaded_weights_of_torchvision_are_read_without_pickle(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}
    entry = torchvision._entry("squeezenet1_1", None)

    def state(self: object, *_: object, **options: object) -> dict[str, torch.Tensor]:
        asked.update(options)
        return torchvision.models.squeezenet1_1().state_dict()

    monkeypatch.setattr(type(entry), "get_state_dict", state)
    torchvision._downloaded(entry)
    assert asked["weights_only"] is True
    assert asked["check_hash"] is True


def objects(path: Path, mark: Path) -> Path:
    np.save(path, np.array([Evil(mark)], dtype=object), allow_pickle=True)
    return path


def test_an_array_of_objects_is_refused(tmp_path: Path, mark: Path) -> None:
    path = objects(tmp_path / "a.npy", mark)
    with pytest.raises(ValueError, match="Python objects in dtype"):
        read_array(path)
    with pytest.raises(AssayError, match=r"a\.npy is no array"):
        drawn_activations(DRAWS, {"i": 0}, path, 1)


def test_an_npz_is_no_array(tmp_path: Path, mark: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.array([Evil(mark)], dtype=object))
    (tmp_path / "b.npy").write_bytes((tmp_path / "a.npz").read_bytes())
    with pytest.raises(AssayError, match=r"b\.npy"):
        drawn_activations(DRAWS, {"i": 0}, tmp_path / "b.npy", 1)


def extension(mark: Path) -> pa.Schema:
    """A field whose metadata older Arrow unpickled (CVE-2023-47248)."""
    metadata = {
        b"ARROW:extension:name": b"arrow.py_extension_type",
        b"ARROW:extension:metadata": bare(mark),
    }
    return pa.schema([pa.field("image", pa.binary(), metadata=metadata)])


def test_object_metadata_of_parquet_is_never_unpickled(tmp_path: Path, mark: Path) -> None:
    table = pa.table({"image": [b"x"]}).cast(pa.schema([pa.field("image", pa.binary())]))
    pq.write_table(table.cast(extension(mark)), tmp_path / "a.parquet")
    with pytest.raises(AssayError, match=r"a\.parquet, row 0"):
        parquet.images(tmp_path, root=tmp_path)
    read_table(tmp_path / "a.parquet")


@pytest.mark.parametrize(
    "told",
    [
        b"{",
        b"[]",
        b'{"info": []}',
        b'{"info": {"features": 3}}',
        b"\xff",
        b'{"info": {"features": {"label": {"names": 3}}}}',
    ],
)
def test_strange_metadata_of_parquet_is_named_or_ignored(tmp_path: Path, told: bytes) -> None:
    stream = io.BytesIO()
    Image.new("RGB", (4, 4)).save(stream, "PNG")
    table = pa.table({"image": [stream.getvalue()], "label": ["cat"]})
    pq.write_table(table.replace_schema_metadata({b"huggingface": told}), tmp_path / "a.parquet")
    images = parquet.images(tmp_path, root=tmp_path).table
    try:
        found = parquet.labels(images, tmp_path, root=tmp_path, columns=("label",))
    except AssayError as error:
        assert "a.parquet" in str(error)
    else:
        assert found.table["name"].tolist() == ["cat"]


def test_a_ratings_table_with_objects_is_read_as_text(mark: Path) -> None:
    rows = {"worker": [bare(mark)], "input_id": ["i"], "rating": ["yes"]}
    stream = io.BytesIO()
    pq.write_table(pa.table(rows), stream)
    sheet = read_parquet(File("a.parquet", stream.getvalue()))
    assert [row.cells["WorkerId"][:1] for row in sheet.rows] == ["b"]


def test_a_mat_file_that_is_none_is_named(tmp_path: Path, mark: Path) -> None:
    (tmp_path / "ILSVRC2012_validation_ground_truth.txt").write_text("1\n")
    for content in (bare(mark), b"", b"MATLAB 5.0 MAT-file" + b"\0" * 400):
        (tmp_path / "meta.mat").write_bytes(content)
        with pytest.raises(AssayError, match=r"meta\.mat is not the devkit's"):
            ground_truth(tmp_path, Classes(("n00000001",), ("a",)))


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """An image beside the data set's folder, which no table may name."""
    path = tmp_path / "secret.png"
    Image.new("RGB", (4, 4), "red").save(path)
    (tmp_path / "root").mkdir()
    return path


@pytest.mark.parametrize("named", ["../secret.png", "/{}", "a/../../secret.png", "a/../../../{}"])
def test_a_table_of_parquet_names_no_image_outside(tmp_path: Path, secret: Path, named: str) -> None:
    root = tmp_path / "root"
    (root / "a").mkdir()
    pq.write_table(pa.table({"image": [named.format(str(secret)[1:])]}), root / "a.parquet")
    with pytest.raises(AssayError, match=r"a\.parquet, row 0"):
        parquet.images(root, root=root)


def test_a_link_in_a_tables_cell_leads_nowhere(tmp_path: Path, secret: Path) -> None:
    root = tmp_path / "root"
    (root / "innocent.png").symlink_to(secret)
    pq.write_table(pa.table({"image": ["innocent.png"]}), root / "a.parquet")
    with pytest.raises(AssayError, match=r"lies outside dataset\.root"):
        parquet.images(root, root=root)


def test_linked_folders_are_not_walked_and_linked_files_are_the_owners(tmp_path: Path, secret: Path) -> None:
    root = tmp_path / "root"
    (root / "own.png").symlink_to(secret)
    (root / "sub").symlink_to(tmp_path)
    manifest = folder.images(root, root=root)
    assert manifest.table["path"].tolist() == ["own.png"]
    assert "linked folders not followed: 1; the first: sub" in manifest.notes


@pytest.mark.parametrize("named", ["../secret.png", "{}"])
def test_labels_of_images_outside_are_refused(tmp_path: Path, secret: Path, named: str) -> None:
    root = tmp_path / "root"
    Image.new("RGB", (4, 4)).save(root / "a.png")
    (root / "images.csv").write_text(f"image,caption\n{named.format(secret)},x\n")
    images = folder.images(root, root=root).table
    with pytest.raises(AssayError, match=r"images\.csv, line 2: .*leads out of"):
        folder.labels(images, root, root=root)


def test_coco_names_no_image_outside(tmp_path: Path, secret: Path) -> None:
    root = tmp_path / "root"
    (root / "annotations").mkdir()
    (root / "val2017").mkdir()
    box = {"id": 1, "image_id": 1, "category_id": 1, "bbox": [0, 0, 1, 1], "iscrowd": 0, "segmentation": []}
    content = {
        "images": [{"id": 1, "file_name": "../../secret.png", "height": 4, "width": 4}],
        "categories": [{"id": 1, "name": "cat", "supercategory": "animal"}],
        "annotations": [box],
    }
    (root / "annotations" / "instances_val2017.json").write_text(json.dumps(content))
    with pytest.raises(AssayError, match=r"instances_val2017\.json: .*leads out of"):
        coco.images(root, root=root)


def test_cub_names_no_image_outside(tmp_path: Path, secret: Path) -> None:
    root = tmp_path / "root"
    (root / "images").mkdir()
    (root / "images.txt").write_text("1 ../../secret.png\n")
    (root / "classes.txt").write_text("1 001.Bird\n")
    (root / "image_class_labels.txt").write_text("1 1\n")
    (root / "train_test_split.txt").write_text("1 0\n")
    with pytest.raises(AssayError, match=r"images\.txt: .*leads out of"):
        cub.images(root, root=root)


def test_questions_name_no_image_outside(tmp_path: Path, secret: Path) -> None:
    root = tmp_path / "root"
    (root / "val2014").mkdir()
    row = {"question_id": 1, "image": "../../secret.png", "text": "Is it?", "label": "yes"}
    (root / f"{repope.PREFIX}random.json").write_text(json.dumps(row))
    with pytest.raises(AssayError, match="leads out of"):
        repope.read(root=root)


def test_a_parquet_file_of_a_strange_name_is_one_like_any_other(tmp_path: Path) -> None:
    stream = io.BytesIO()
    Image.new("RGB", (4, 4)).save(stream, "PNG")
    name = "a $(touch ran) 'b' \"c\" ..%2f; x.parquet"
    pq.write_table(pa.table({"image": [stream.getvalue()]}), tmp_path / name)
    table = parquet.images(tmp_path, root=tmp_path).table
    assert table["image_id"].tolist() == [f"{name}:0"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [name]


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
def test_bytes_at_random_are_a_message_and_no_crash(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    state = io.BytesIO()
    torch.save({"w": torch.arange(6.0).reshape(2, 3)}, state, _use_new_zipfile_serialization=False)
    whole = np.frombuffer(state.getvalue(), dtype=np.uint8)
    path = tmp_path / "cut.pt"
    for _ in range(300):
        damaged = whole.copy()
        damaged[generator.integers(0, len(whole), 4)] = generator.integers(0, 256, 4)
        path.write_bytes(damaged.tobytes()[: generator.integers(1, len(whole) + 1)])
        try:
            weights.read(path)
        except AssayError as error:
            assert "cut.pt" in str(error)


def test_frames_of_our_own_results_are_typed(tmp_path: Path) -> None:
    pd.DataFrame({"a": [1]}).to_parquet(tmp_path / "a.parquet")
    (tmp_path / "b.parquet").write_bytes(pickle.dumps(pd.DataFrame({"a": [1]})))
    assert read_table(tmp_path / "a.parquet")["a"].tolist() == [1]
    with pytest.raises(pa.ArrowInvalid):
        read_table(tmp_path / "b.parquet")
