import hashlib
import multiprocessing
import os
import pickle
import zipfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.datasets import folder, parquet, shapes
from pipeline.datasets.decoding import decode
from pipeline.datasets.parquet_rows import RowGroups
from pipeline.datasets.reading import ImageReader
from pipeline.errors import AssayError


@pytest.fixture
def plain(place, tmp_path):
    root = place("a.png", "b.jpg", "c.png")
    return ImageReader(folder.images(tmp_path, root=root).table, root, tmp_path)


@pytest.fixture
def zipped(tmp_path):
    return ImageReader(shapes.images(tmp_path, n_images=5, size=16, seed=0).table, None, tmp_path)


@pytest.fixture
def rows(tmp_path, encoded):
    root = tmp_path / "root"
    root.mkdir()
    for name in ("a", "b"):
        cells = [{"bytes": encoded(i), "path": None} for i in range(7)]
        pq.write_table(pa.table({"image": cells}), root / f"{name}.parquet", row_group_size=3)
    return ImageReader(parquet.images(tmp_path, root=root).table, root, tmp_path)


@pytest.fixture(params=["plain", "zipped", "rows"])
def reader(request):
    return request.getfixturevalue(request.param)


def pixels(reader, i):
    return np.asarray(reader[i])


def test_it_gives_rgb_images_of_the_encoded_bytes(reader):
    for i in range(len(reader)):
        assert reader[i].mode == "RGB"
        assert reader[i].tobytes() == decode(reader.encoded(i)).tobytes()


def test_a_pickled_reader_reads_the_same(reader):
    _ = reader[0]
    again = pickle.loads(pickle.dumps(reader))
    assert [again.encoded(i) for i in range(len(again))] == [reader.encoded(i) for i in range(len(reader))]


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_processes_read_at_once_with_files_that_the_parent_had_open(zipped, method):
    expected = [zipped.encoded(i) for i in range(len(zipped))]
    order = list(range(len(zipped))) * 20
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map(zipped.encoded, order, chunksize=5) == [expected[i] for i in order]


def test_a_forked_child_opens_its_own_files(zipped):
    _ = zipped[0]
    parents = next(iter(zipped._zips.values()))
    child = os.fork()
    if child == 0:
        zipped.encoded(1)
        os._exit(0 if next(iter(zipped._zips.values())) is not parents else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_row_groups_give_every_row_in_any_order(tmp_path):
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"text": [f"value {i}" for i in range(10)]}), path, row_group_size=4)
    groups = RowGroups(path, "text")
    order = [9, 0, 3, 4, 8, 7, 1, 2, 5, 6]
    assert [groups.cell(i) for i in order] == [f"value {i}" for i in order]
    for beyond in (10, -1):
        with pytest.raises(IndexError):
            groups.cell(beyond)


def test_a_file_that_changed_is_named(plain):
    path = plain._folders["root"] / "b.jpg"
    path.write_bytes(path.read_bytes() + b"\0")
    plain[0]
    with pytest.raises(AssayError, match=r"image 'b\.jpg' changed since its manifest was made.*b\.jpg"):
        plain[1]


def test_a_zip_member_that_changed_is_named(zipped, tmp_path):
    archive = tmp_path / "images.zip"
    with zipfile.ZipFile(archive) as old:
        data = {name: old.read(name) for name in old.namelist()}
    data["000002.png"], data["000003.png"] = data["000003.png"], data["000002.png"]
    with zipfile.ZipFile(archive, "w") as new:
        for name, one in data.items():
            new.writestr(name, one)
    zipped[1]
    with pytest.raises(AssayError, match="image '000002' changed"):
        zipped[2]


def test_a_flipped_bit_in_a_zip_is_named(zipped, tmp_path):
    archive = tmp_path / "images.zip"
    data = bytearray(archive.read_bytes())
    data[200] ^= 1
    archive.write_bytes(data)
    with pytest.raises(AssayError, match="image '000000'"):
        zipped[0]


def test_a_file_that_is_gone_is_named(reader, tmp_path):
    for path in tmp_path.rglob("*.*"):
        path.unlink()
    with pytest.raises(AssayError, match=f"image '{reader._ids[0]}'.*cannot be read"):
        reader[0]


def test_bytes_that_do_not_decode_are_named(tmp_path):
    (tmp_path / "x.png").write_bytes(b"junk")
    checksum = hashlib.sha256(b"junk").hexdigest()
    columns = {"image_id": "x", "source": "root", "path": "x.png", "member": "", "checksum": checksum}
    with pytest.raises(AssayError, match=r"image 'x' \(.*x\.png\) cannot be decoded"):
        ImageReader(pd.DataFrame([columns]), tmp_path, tmp_path)[0]


def test_a_root_that_was_not_given_is_asked_for(plain, tmp_path):
    table = pd.DataFrame([{"image_id": "x", "source": "root", "path": "x.png", "member": "", "checksum": ""}])
    with pytest.raises(AssayError, match=r"dataset\.root"):
        ImageReader(table, None, tmp_path)[0]
