import csv
import runpy
from pathlib import Path

import pytest
from PIL import Image

SCRIPT = Path(__file__).parents[2] / "scripts" / "fetch_emoji.py"


@pytest.fixture(scope="module")
def script():
    return runpy.run_path(str(SCRIPT))


def entry(code, category="Objects", subcategory="light-video", google=True):
    return {
        "unified": code,
        "image": f"{code.lower()}.png",
        "category": category,
        "subcategory": subcategory,
        "has_img_google": google,
    }


TOLD = [
    {"hexcode": code, "label": f"label {code}", "tags": ["b", "light video", "a"]}
    for code in ("1F321", "1F4A1")
]


def test_pictures_are_kept_in_order_and_codes_meet_without_their_variant_selector(script):
    listed = [
        entry("1F4A1"),
        entry("1F1EA", "Flags"),
        entry("2714", "Symbols"),
        entry("1F3FB", "Component"),
        entry("1F999", google=False),
        entry("1F321-FE0F"),
    ]
    emoji = script["joined"](listed, TOLD)
    assert [(one.image, one.caption) for one in emoji] == [
        ("1f4a1.png", "label 1F4A1"),
        ("1f321-fe0f.png", "label 1F321"),
    ]
    assert emoji[0].concepts() == ["a", "b", "light video"]


def test_the_folder_is_one_that_the_dataset_reads(script, tmp_path):
    from pipeline.datasets import folder

    (tmp_path / "pictures").mkdir()
    Image.new("RGBA", (4, 4), (255, 0, 0, 0)).save(tmp_path / "pictures" / "1f4a1.png")
    emoji = script["joined"]([entry("1F4A1")], TOLD)
    root = tmp_path / "emoji"
    script["write_folder"](emoji, tmp_path / "pictures", root)
    table = folder.images(tmp_path, root=root).table
    found = folder.labels(table, tmp_path, root=root)
    assert found.captions.values.tolist() == [["1f4a1.png", "label 1F4A1"]]
    assert found.table["name"].tolist() == ["a", "b", "light video", "Objects"]
    assert Image.open(root / "images" / "1f4a1.png").getpixel((0, 0)) == (255, 255, 255)


def test_the_notice_is_that_of_the_reference_folder(script, emoji):
    assert (emoji / "NOTICE").read_text() == script["NOTICE"]
    with (emoji / "images.csv").open(newline="") as stream:
        assert tuple(next(csv.reader(stream))) == script["IMAGE_HEADER"]
