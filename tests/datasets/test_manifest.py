import hashlib

import pytest

from pipeline.datasets.manifest import COLUMNS, Found, take_stock
from pipeline.errors import AssayError


def found(image_id, data, place=None):
    return Found(image_id, "root", f"{image_id}.png", place or f"/data/{image_id}.png", lambda: data)


def missing():
    raise FileNotFoundError("gone")


def test_a_row_tells_size_and_checksum_in_the_order_given(encoded):
    data = {"b": encoded(1, (8, 6)), "a": encoded(2, (5, 7))}
    table = take_stock([found(name, one) for name, one in data.items()], "stop", nothing="").table
    assert tuple(table.columns) == COLUMNS
    assert table["image_id"].tolist() == ["b", "a"]
    assert table[["width", "height"]].values.tolist() == [[8, 6], [5, 7]]
    assert table["checksum"].tolist() == [hashlib.sha256(one).hexdigest() for one in data.values()]


def test_an_unreadable_image_stops_and_is_named_with_the_way_out(encoded):
    with pytest.raises(AssayError, match=r"/data/bad\.png.*on_bad_image=skip"):
        take_stock([found("good", encoded()), found("bad", b"junk")], "stop", nothing="")


def test_skipped_images_are_named_and_counted(encoded):
    images = [
        found("bad", b"junk"),
        found("good", encoded()),
        Found("gone", "root", "gone.png", "/data/gone.png", missing),
    ]
    manifest = take_stock(images, "skip", nothing="", notes=("first",))
    assert manifest.table["image_id"].tolist() == ["good"]
    assert manifest.skipped["image_id"].tolist() == ["bad", "gone"]
    assert "/data/gone.png: gone" in manifest.skipped["reason"][1]
    assert manifest.notes[0] == "first"
    assert "left out: 2" in manifest.notes[1]


def test_nothing_skipped_is_an_empty_table_without_a_note(encoded):
    manifest = take_stock([found("a", encoded())], "skip", nothing="")
    assert manifest.skipped.columns.tolist() == ["image_id", "reason"]
    assert len(manifest.skipped) == 0
    assert manifest.notes == ()


def test_no_image_says_what_was_looked_for():
    with pytest.raises(AssayError, match=r"looked for \*\.png"):
        take_stock([], "skip", nothing="looked for *.png")


def test_only_unreadable_images_is_an_error_even_when_skipping():
    with pytest.raises(AssayError, match=r"all 2 images are unreadable.*/data/x\.png"):
        take_stock([found("x", b""), found("y", b"")], "skip", nothing="")


def test_one_id_twice_names_both_places(encoded):
    with pytest.raises(AssayError, match=r"'a'.*one place.*another place"):
        take_stock(
            [found("a", encoded(), "one place"), found("a", encoded(), "another place")], "skip", nothing=""
        )
