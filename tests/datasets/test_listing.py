import pytest

from pipeline.datasets.listing import existing_root, link_note, listed
from pipeline.errors import AssayError


def touch(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return folder


def test_the_order_is_by_name_without_case_first(tmp_path):
    touch(tmp_path, "b.png", "B.png", "a/z.JPG", "C.webp", "A/y.jpeg")
    assert listed(tmp_path).files == ("A/y.jpeg", "a/z.JPG", "B.png", "b.png", "C.webp")


def test_hidden_files_and_other_files_are_not_seen(tmp_path):
    touch(tmp_path, "a.png", "._a.png", ".git/b.png", "__MACOSX/c.png", "notes.txt", "png")
    assert listed(tmp_path).files == ("a.png",)


def test_linked_files_are_read_and_linked_folders_are_told_of(tmp_path):
    touch(tmp_path / "real", "a.png")
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "b.png").symlink_to(tmp_path / "real" / "a.png")
    (tmp_path / "root" / "more").symlink_to(tmp_path / "real")
    listing = listed(tmp_path / "root")
    assert listing.files == ("b.png",)
    assert link_note(listing) == ("linked folders not followed: 1; the first: more",)


def test_a_missing_root_is_named_by_its_absolute_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AssayError, match=f"{tmp_path}/data/none"):
        existing_root("data/none")
    touch(tmp_path, "file")
    with pytest.raises(AssayError, match="is a file"):
        existing_root("file")
