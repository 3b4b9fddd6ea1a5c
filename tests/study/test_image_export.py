"""What is uploaded lies where the addresses point, and nowhere else."""

import hashlib
from io import BytesIO
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from pipeline.errors import AssayError
from pipeline.study.frozen import FrozenStudy, read_text_table
from pipeline.study.hosting import image_urls
from pipeline.study.image_export import export_images, exported_path, fixed_beginning
from pipeline.study.images import exported_name
from pipeline.study.settings import StudySettings, write_settings


def picture(colour: tuple[int, int, int], kind: str = "PNG") -> bytes:
    stream = BytesIO()
    Image.new("RGB", (4, 3), colour).save(stream, kind)
    return stream.getvalue()


PICTURES = {
    "one": ("n01440764/a b.png", picture((255, 0, 0)), "n01440764"),
    "two": ("n01440764/c.jpg", picture((0, 255, 0), "JPEG"), "n01440764"),
    "three": ("n09999999/d.bmp", picture((0, 0, 255), "BMP"), "n09999999"),
    "again": ("n09999999/e.png", picture((255, 0, 0)), "n09999999"),
}


def study(folder: Path, template: str | None) -> FrozenStudy:
    rows = []
    for image_id, (path, encoded, synset) in PICTURES.items():
        (folder / "images" / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / "images" / path).write_bytes(encoded)
        checksum = hashlib.sha256(encoded).hexdigest()
        name = exported_name(checksum, path, "")
        rows.append((image_id, checksum, name, synset, "result", path, "", ""))
    columns = ["image_id", "checksum", "file", "synset", "source", "path", "member", "root"]
    table = pd.DataFrame(rows, columns=columns)
    table.assign(url=image_urls(template, table)).to_csv(folder / "images.csv", index=False)
    write_settings(folder / "settings.json", StudySettings(image_base_url=template))
    return FrozenStudy(folder)


def files(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "pilot").mkdir()
    return tmp_path / "pilot"


def test_file_names_are_those_of_the_addresses_and_equal_images_are_one_file(here: Path, tmp_path: Path):
    pilot = study(here, "https://example.org/pilot/{file}")
    assert export_images(pilot, tmp_path / "out") == 3
    written = files(tmp_path / "out")
    urls = pilot.images.table["url"]
    assert set(written) == {url.removeprefix("https://example.org/pilot/") for url in urls} | {"images.csv"}
    assert written[pilot.images.table["file"][1]] == PICTURES["two"][1]


def test_what_browsers_do_not_show_is_written_as_png(here: Path, tmp_path: Path):
    pilot = study(here, None)
    export_images(pilot, tmp_path / "out")
    name = pilot.images.table["file"][2]
    assert Image.open(tmp_path / "out" / name).format == "PNG"
    assert Image.open(tmp_path / "out" / name).getpixel((0, 0)) == (0, 0, 255)


def test_folders_of_the_template_are_folders_of_the_export(here: Path, tmp_path: Path):
    pilot = study(here, "https://example.org/x/{synset}/{path}?v=2")
    assert export_images(pilot, tmp_path / "out") == 4
    expected = {f"{synset}/{path}" for path, _, synset in PICTURES.values()}
    assert set(files(tmp_path / "out")) == expected | {"images.csv"}


def test_the_index_names_file_address_and_checksum_of_every_file(here: Path, tmp_path: Path):
    pilot = study(here, "https://example.org/x/{path}")
    export_images(pilot, tmp_path / "out")
    index = read_text_table(tmp_path / "out" / "images.csv")
    assert list(index.columns) == ["file", "url", "checksum"]
    assert index["url"].tolist() == pilot.images.table["url"].tolist()
    for name, checksum in index[["file", "checksum"]].itertuples(index=False):
        assert hashlib.sha256((tmp_path / "out" / name).read_bytes()).hexdigest() == checksum


def test_a_second_export_leaves_good_files_and_mends_bad_ones(here: Path, tmp_path: Path):
    pilot = study(here, None)
    export_images(pilot, tmp_path / "out")
    before = files(tmp_path / "out")
    good, bad = (tmp_path / "out" / pilot.images.table["file"][i] for i in (0, 1))
    inode = good.stat().st_ino
    bad.write_bytes(bytes(len(before[bad.name])))
    export_images(pilot, tmp_path / "out")
    assert files(tmp_path / "out") == before
    assert good.stat().st_ino == inode


def test_two_images_of_one_path_are_refused(here: Path, tmp_path: Path):
    with pytest.raises(AssayError, match=r"'two' would overwrite .* at get"):
        export_images(study(here, "https://example.org/get?name={file}"), tmp_path / "out")


def test_an_address_of_another_template_is_named(here: Path, tmp_path: Path):
    pilot = study(here, "https://example.org/x/{file}")
    write_settings(here / "settings.json", StudySettings(image_base_url="https://example.org/y/{file}"))
    with pytest.raises(
        AssayError, match=r"https://example.org/x/.* does not begin with https://example.org/y/"
    ):
        export_images(pilot, tmp_path / "out")


@pytest.mark.parametrize("path", ["../x.png", "a/../../x.png", "/etc/x.png", "a//b.png", "", "a\\..\\b.png"])
def test_a_path_that_leaves_the_folder_is_refused(path: str):
    with pytest.raises(AssayError, match="could leave the folder"):
        exported_path("one", "f.png", f"https://example.org/{path}", "https://example.org/{path}")
    with pytest.raises(AssayError, match="could leave the folder"):
        exported_path("one", path, "", None)


def test_a_percent_encoded_path_that_leaves_the_folder_is_refused():
    with pytest.raises(AssayError, match="could leave the folder"):
        exported_path("one", "f.png", "https://example.org/%2e%2e%2fx.png", "https://example.org/{path}")


def test_a_link_out_of_the_folder_is_refused(here: Path, tmp_path: Path):
    (tmp_path / "out").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out" / "n01440764").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(AssayError, match="through a link"):
        export_images(study(here, "https://example.org/{path}"), tmp_path / "out")
    assert not list((tmp_path / "elsewhere").iterdir())


@pytest.mark.parametrize(
    ("template", "beginning"),
    [
        ("https://example.org/x/{file}", "https://example.org/x/"),
        ("https://example.org/x/img_{file}", "https://example.org/x/"),
        ("https://example.org/{synset}/{path}", "https://example.org/"),
        ("https://example.org/x", "https://example.org/x/"),
    ],
)
def test_the_fixed_beginning_ends_with_a_slash_before_the_first_place(template: str, beginning: str):
    assert fixed_beginning(template) == beginning


@given(name=st.text(st.characters(exclude_characters="/\\\0", exclude_categories=["Cs"]), min_size=1))
def test_any_file_name_survives_the_way_through_its_address(name: str):
    images = pd.DataFrame([{"image_id": "one", "path": name, "synset": "", "file": "f.png"}])
    (url,) = image_urls("https://example.org/x/{path}", images)
    if name in (".", ".."):
        with pytest.raises(AssayError):
            exported_path("one", "f.png", url, "https://example.org/x/{path}")
    else:
        assert str(exported_path("one", "f.png", url, "https://example.org/x/{path}")) == name
