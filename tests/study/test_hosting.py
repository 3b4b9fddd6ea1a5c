"""Where a study's images are on the web."""

import pandas as pd
import pytest

from pipeline.errors import AssayError
from pipeline.study.hosting import image_urls
from pipeline.study.images import exported_name


def images(**cells: str) -> pd.DataFrame:
    row = {
        "image_id": "a b",
        "path": "n01440764/a b.jpg",
        "member": "",
        "synset": "n01440764",
        "file": "ff.jpg",
    }
    return pd.DataFrame([row | cells])


@pytest.mark.parametrize(
    ("template", "url"),
    [
        ("https://x.org/images", "https://x.org/images/ff.jpg"),
        ("https://x.org/images/", "https://x.org/images/ff.jpg"),
        ("https://x.org/{synset}/{image_id}.JPEG", "https://x.org/n01440764/a%20b.JPEG"),
        ("https://x.org/{path}?v=1", "https://x.org/n01440764/a%20b.jpg?v=1"),
    ],
)
def test_a_template_is_filled_for_each_image(template: str, url: str) -> None:
    assert image_urls(template, images()) == [url]


def test_a_file_name_with_braces_or_quotes_cannot_break_out() -> None:
    (url,) = image_urls("https://x.org/{path}/{image_id}", images(path='{image_id}".jpg', image_id="{path}"))
    assert url == "https://x.org/%7Bimage_id%7D%22.jpg/%7Bpath%7D"


def test_without_a_template_there_is_no_address() -> None:
    assert image_urls(None, images()) == [""]


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("ftp://x", "no address"),
        ("https://", "no address"),
        ("https://x/{name}", r"unknown place \{name\}; known: file, path, synset, image_id"),
    ],
)
def test_a_template_that_gives_no_address_is_refused(template: str, message: str) -> None:
    with pytest.raises(AssayError, match=message):
        image_urls(template, images())


def test_an_image_without_synset_is_named() -> None:
    with pytest.raises(AssayError, match=r"image 'a b' .* has none"):
        image_urls("https://x.org/{synset}", images(synset=""))


def test_the_exported_name_tells_raters_nothing() -> None:
    assert exported_name("0123456789abcdef0000", "cats/tabby.JPG", "") == "0123456789abcdef.jpg"
    assert exported_name("0123456789abcdef0000", "shard.parquet", "17:image") == "0123456789abcdef.png"
    assert exported_name("0123456789abcdef0000", "all.zip", "cats/1.webp") == "0123456789abcdef.webp"
