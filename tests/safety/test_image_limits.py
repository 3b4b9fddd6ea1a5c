"""One limit of pixels and one list of formats, wherever an image comes from."""

import struct
import tracemalloc
import zlib
from io import BytesIO
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from pipeline.datasets import decoding, folder, parquet
from pipeline.datasets.decoding import MAX_PIXELS, Undecodable, decode, displayed_size, opened_image
from pipeline.errors import AssayError
from pipeline.report.vlm_pixels import canvas_uri
from pipeline.study.images import shown_as
from pipeline.vqa.cells import FileImage

DECLARED = "60,000 x 60,000"


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def bomb(width: int = 60_000, height: int = 60_000) -> bytes:
    """A PNG of a few kilobytes that declares so many grey pixels, all of them there."""
    packer = zlib.compressobj(9)
    rows = b"".join(packer.compress(b"\0" * (1 + width)) for _ in range(200)) + packer.flush()
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


BOMB = bomb()


@pytest.mark.parametrize("read", [decode, displayed_size])
def test_a_bomb_is_refused_before_its_pixels_are_in_memory(read) -> None:
    tracemalloc.start()
    with pytest.raises(Undecodable, match=r"exceeds limit of \d+ pixels"):
        read(BOMB)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(BOMB) < 50_000
    assert peak < 1_000_000


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_the_limit_is_ours_and_stated() -> None:
    side = int(MAX_PIXELS**0.5)
    with pytest.raises(Undecodable, match=rf"{side + 1:,} x {side + 1:,} pixels; at most {MAX_PIXELS:,}"):
        decode(bomb(side + 1, side + 1))
    with opened_image(bomb(side, side)) as image:
        assert image.size == (side, side)


def test_the_limit_holds_where_another_library_lifted_pillows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
    with pytest.raises(Undecodable, match=DECLARED):
        decode(BOMB)


def test_a_data_set_names_the_file_of_a_bomb(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    Image.new("RGB", (8, 8)).save(tmp_path / "a" / "fine.png")
    (tmp_path / "a" / "bomb.png").write_bytes(BOMB)
    with pytest.raises(AssayError, match=r"bomb\.png: .*pixels.*on_bad_image=skip"):
        folder.images(tmp_path, root=tmp_path)
    manifest = folder.images(tmp_path, root=tmp_path, on_bad_image="skip")
    assert manifest.table["image_id"].tolist() == ["a/fine.png"]
    assert "bomb.png" in manifest.notes[-1]


def test_a_bomb_in_a_parquet_cell_names_its_row(tmp_path: Path) -> None:
    pq.write_table(pa.table({"image": [BOMB]}), tmp_path / "a.parquet")
    with pytest.raises(AssayError, match=r"a\.parquet, row 0: .*pixels"):
        parquet.images(tmp_path, root=tmp_path)


def test_every_other_reader_refuses_it_by_name(tmp_path: Path) -> None:
    path = tmp_path / "bomb.png"
    path.write_bytes(BOMB)
    with pytest.raises(AssayError, match=r"bomb\.png"):
        FileImage(path, "table, row 3")()
    with pytest.raises(Undecodable, match=r"bomb\.png"):
        canvas_uri(path)
    assert shown_as(BOMB) is None


def test_a_small_file_with_a_huge_text_is_refused() -> None:
    text = chunk(b"zTXt", b"k\0\0" + zlib.compress(b"x" * 100_000_000, 9))
    whole = BytesIO()
    Image.new("RGB", (8, 8)).save(whole, "PNG")
    encoded = whole.getvalue()
    with pytest.raises(Undecodable, match="Decompressed data too large"):
        decode(encoded[:33] + text + encoded[33:])


def test_postscript_never_reaches_ghostscript(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from PIL import EpsImagePlugin

    def ran(*_: object, **__: object) -> None:
        raise AssertionError("Ghostscript was called")

    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", ran)
    eps = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\n(x) run\n%%EOF\n"
    (tmp_path / "innocent.png").write_bytes(eps)
    Image.init()
    for read in (decode, displayed_size):
        with pytest.raises(Undecodable, match="no image in a known format"):
            read(eps)


@pytest.mark.parametrize("kind", decoding.FORMATS)
def test_the_formats_that_are_promised_are_read(kind: str) -> None:
    stream = BytesIO()
    Image.fromarray(np.full((6, 8, 3), 200, dtype=np.uint8)).save(stream, kind)
    assert decode(stream.getvalue()).size == (8, 6)


def test_a_truncated_image_stops_a_manifest_by_name(tmp_path: Path) -> None:
    stream = BytesIO()
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(noise).save(stream, "JPEG")
    (tmp_path / "cut.jpg").write_bytes(stream.getvalue()[:1000])
    with pytest.raises(AssayError, match=r"cut\.jpg"):
        folder.images(tmp_path, root=tmp_path)
