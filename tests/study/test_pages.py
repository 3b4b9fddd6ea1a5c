"""The pages that raters see hold every slot, and show a text as text."""

import re
from html.parser import HTMLParser

import pytest

from pipeline.study.pages import PAGES, fill, page


@pytest.mark.parametrize("name", ["task.html", "task_plain.html"])
def test_a_page_has_a_place_for_every_image_of_a_task(name: str) -> None:
    text = page(name, 15)
    assert set(re.findall(r"\$\{(\w+)\}", text)) == {
        "description_html",
        *(f"image_url{j}" for j in range(15)),
    }
    assert set(re.findall(r'name="(image\d+)"', text)) == {f"image{j}" for j in range(15)}


def test_the_pages_give_examples_of_yes_and_of_no() -> None:
    for name in ("task.html", "task_plain.html"):
        text = page(name, 3)
        assert "Mark it." in text
        assert "Leave it." in text


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("name", ["task.html", "task_plain.html"])
def test_markup_in_a_text_or_an_address_stays_text(name: str) -> None:
    plain, tagged = Tags(), Tags()
    row = {"description_html": "a", "image_url0": "https://x/1.png", "image_url1": ""}
    plain.feed(fill(page(name, 2), row))
    evil = {
        **row,
        "description_html": "&lt;script&gt;alert(1)&lt;/script&gt;",
        "image_url0": '"><script>x</script>',
    }
    tagged.feed(fill(page(name, 2), evil))
    assert [tag for tag, _ in tagged.found] == [tag for tag, _ in plain.found]
    assert "<script>alert(1)</script>" in tagged.text
    assert ('"><script>x</script>') in [attributes.get("src") for _, attributes in tagged.found]


def test_a_name_that_the_task_lacks_is_no_blank() -> None:
    with pytest.raises(KeyError):
        fill("${image_url0}", {})


def test_every_page_is_made_anew_the_same() -> None:
    for name in PAGES:
        assert page(name, 4) == page(name, 4)
