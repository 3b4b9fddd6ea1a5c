"""Attribute pages: whole in themselves, escaped, and what is missing in words; examples by stated rules."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csc_array

from pipeline.report.attribute_examples import fires, missed, spread_over, strongest
from pipeline.report.attribute_page import (
    About,
    AttributeRow,
    AttributeView,
    LatentExamples,
    PairExample,
    PairSide,
    Perturbed,
    Picture,
    Step,
    attribute_page,
    change_words,
    index_page,
    page_name,
)

NAN = float("nan")
DATA = "data:image/jpeg;base64,AAAA"
EVIL = "<script>alert('x')</script> & \"red\""
ABOUT = About("kabc", (("matcher", "fbmp"), ("note", EVIL)), "train", "test", 2, pairs=True)
ROW = AttributeRow("red", "colour", 30, 20, "", 3, 0.8, 0.5, NAN, "0000-red.html")
HAS, LACKS = Picture("a1", DATA, True, "code 9"), Picture("b2", DATA, False, "code 3")
STEPS = (Step(1, 3, 0.7, 0.6, True), Step(2, 7, 0.8, 0.8, True), Step(3, 5, 0.9, 0.7, False))
PAIR = PairExample("p1", True, "blue", replace(LACKS, note=""), replace(HAS, note=""), 1.0, 0.4, False)
VIEW = AttributeView(
    row=ROW,
    steps=STEPS,
    latents=(LatentExamples(STEPS[0], 10, 8, (HAS, LACKS)), LatentExamples(STEPS[1], 0, 0, ())),
    misses=(Picture("m1", DATA, True),),
    n_misses=5,
    perturbed=Perturbed((PairSide(True, 8, 0.5, 5, 2, 1),), (PAIR,), 0.25, 2),
)


class Page(HTMLParser):
    """The tags and the text of a page."""

    VOID = ("meta", "img", "br", "link")

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(html)
        assert not self.open, f"left open: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def test_a_page_needs_no_other_file_and_no_network() -> None:
    for html in (attribute_page(VIEW, ABOUT), index_page([ROW], ABOUT)):
        page = Page(html)
        sources = [str(image["src"]) for image in page.all("img")]
        assert all(source.startswith("data:image/") for source in sources)
        assert {str(link["href"]) for link in page.all("a")} <= {"index.html", "0000-red.html"}
        assert not page.all("script") and not page.all("link")
        assert "url(" not in html and "@import" not in html and "http:" not in html and "https:" not in html
        policies = [meta["content"] for meta in page.all("meta") if "http-equiv" in meta]
        assert policies == ["default-src 'none'; img-src data:; style-src 'unsafe-inline'"]


def test_pages_are_light_and_dark_and_can_be_printed() -> None:
    html = attribute_page(VIEW, ABOUT)
    assert "prefers-color-scheme: dark" in html
    assert "@media print" in html


def test_all_text_is_escaped() -> None:
    row = replace(ROW, name=EVIL, family=EVIL, reason=EVIL)
    picture = replace(HAS, image_id=EVIL, note=EVIL)
    pair = replace(PAIR, pair_id=EVIL, other=EVIL, before=picture)
    perturbed = replace(VIEW.perturbed, examples=(pair,)) if VIEW.perturbed else None
    latents = (LatentExamples(STEPS[0], 1, 1, (picture,)),)
    view = replace(VIEW, row=row, latents=latents, misses=(picture,), perturbed=perturbed)
    for html in (attribute_page(view, ABOUT), index_page([row], ABOUT)):
        page = Page(html)
        assert not page.all("script")
        assert EVIL in page.text


def test_a_picture_says_in_words_whether_it_has_the_attribute() -> None:
    page = Page(attribute_page(VIEW, ABOUT))
    assert "✓ has it · code 9 a1" in page.text
    assert "lacks it · code 3 b2" in page.text
    assert "lacks it · before b2" in page.text and "✓ has it · after a1" in page.text
    first, second, *_ = page.all("img")
    assert first["alt"] == "image a1, has red"
    assert second["alt"] == "image b2, lacks red"
    assert [figure["class"] for figure in page.all("figure")][:2] == ["held", "lacking"]


def test_the_path_tells_which_latents_count() -> None:
    text = Page(attribute_page(VIEW, ABOUT)).text
    assert "0.800 F1 of the first 2 latents, test" in text
    assert "Only the first 2 count; the others are recorded." in text
    assert "1 3 0.700 0.600 2 7 0.800 0.800 3 5 0.900 0.700 does not count" in text


def test_a_latent_is_told_by_what_it_fires_on() -> None:
    text = Page(attribute_page(VIEW, ABOUT)).text
    assert "Latent 3, step 1 Fires on 10 images; 8 of them (80%) have the attribute" in text
    assert "which is 40% of the images with it" in text
    assert "Latent 7, step 2 Fires on no test image." in text


def test_misses_are_counted_and_a_choice_of_them_is_called_one() -> None:
    text = Page(attribute_page(VIEW, ABOUT)).text
    assert "5 of 20 images with the attribute (25%): no latent that counts fires on them. 1 are shown" in text
    none = Page(attribute_page(replace(VIEW, misses=(), n_misses=0), ABOUT)).text
    assert "None: on every test image with the attribute at least one of these latents fires." in none


def test_pairs_are_told_by_their_outcome() -> None:
    text = Page(attribute_page(VIEW, ABOUT)).text
    assert (
        "Added in 8 pairs: latents came on in 5, did not change in 2, went off (the wrong way) in 1." in text
    )
    assert "Added, in place of blue: latents came on, as they should" in text
    assert "change +1.00, of real codes +0.40 · pair p1" in text
    assert "0.250 mean change where it stays (2 pairs)" in text


@pytest.mark.parametrize(
    ("delta", "adds", "empty", "words"),
    [
        (1.0, True, False, "latents came on, as they should"),
        (-1.0, True, False, "latents went off, the wrong way"),
        (-1.0, False, False, "latents went off, as they should"),
        (1.0, False, False, "latents came on, the wrong way"),
        (0.0, True, False, "no change"),
        (0.0, False, True, "no latent to judge by: counts as 0"),
        (NAN, True, True, "left out of the score"),
    ],
)
def test_a_change_in_words(delta: float, adds: bool, empty: bool, words: str) -> None:
    assert change_words(delta, adds, empty) == words


def test_an_attribute_without_anything_says_so() -> None:
    row = replace(ROW, n_matched=0, n_held_out=0, n_latents=0, reason="no positive", f1=0.0)
    empty = AttributeView(row, (), (), (), 0, Perturbed((), (), NAN, 0))
    text = Page(attribute_page(empty, ABOUT)).text
    assert "No latent was matched: no positive. The attribute's F1 counts as 0." in text
    assert "No test image has the attribute, so there is none to miss." in text
    assert "No pair adds or removes this attribute." in text
    without = Page(attribute_page(replace(empty, perturbed=None), replace(ABOUT, pairs=False))).text
    assert "There are no pairs of images for this result." in without


def test_the_index_lists_the_best_first_and_links_the_pages_that_are_there() -> None:
    rows = [
        replace(ROW, name="low", f1=0.1, page=""),
        replace(ROW, name="first of two", f1=0.5),
        replace(ROW, name="second of two", f1=0.5, page="0002.html"),
        replace(ROW, name="none", f1=0.0, reason="no overlap", page=""),
    ]
    page = Page(index_page(rows, ABOUT))
    assert re.findall(r"first of two|second of two|low|none", page.text.split("remark")[1]) == [
        "first of two",
        "second of two",
        "low",
        "none",
    ]
    assert [link["href"] for link in page.all("a")] == ["0000-red.html", "0002.html"]
    assert "0.275 MATCHScore: mean F1 of 4 attributes, test" in page.text
    assert "1 without a score of their own, counted as 0" in page.text
    assert "+0.50 -" in page.text
    assert "added" not in Page(index_page(rows, replace(ABOUT, pairs=False))).text


def test_page_names_are_safe_and_unique() -> None:
    names = ["Red!", "red", "../../etc/passwd", "ÄÖ 日本", "x" * 300, "", "CON", "a/b\\c:d"]
    pages = [page_name(column, name) for column, name in enumerate(names)]
    assert pages[0] == "0000-red.html"
    assert pages[3] == "0003.html"
    assert len(set(pages)) == len(names)
    assert all(re.fullmatch(r"\d{4}(-[a-z0-9]+)*\.html", page) and len(page) <= 70 for page in pages)


CODES = csc_array(np.array([[0, 2, 0], [1, 2, 0], [3, 0, 0], [1, -5, 0], [0, 9, 0]], dtype=np.float32))


def test_the_strongest_images_come_first_and_ties_in_order() -> None:
    rows, values = strongest(CODES, 0, 3)
    assert rows.tolist() == [2, 1, 3]
    assert values.tolist() == [3, 1, 1]
    assert strongest(CODES, 1, 8)[0].tolist() == [4, 0, 1]
    assert strongest(CODES, 2, 8)[0].tolist() == []


def test_a_code_that_is_not_above_0_does_not_fire() -> None:
    explicit = csc_array(
        (np.array([0.0, -1.0, 4.0]), np.array([0, 1, 2]), np.array([0, 3])), shape=(3, 1), dtype=np.float32
    )
    assert fires(explicit, 0)[0].tolist() == [2]
    assert missed(explicit, [0], [True, True, True]).tolist() == [0, 1]


def test_misses_are_images_with_the_attribute_on_which_no_latent_fires() -> None:
    held = [True, False, True, True, True]
    assert missed(CODES, [0], held).tolist() == [0, 4]
    assert missed(CODES, [0, 1], held).tolist() == []
    assert missed(CODES, [], held).tolist() == [0, 2, 3, 4]


@given(st.integers(0, 60), st.integers(2, 9))
def test_a_choice_is_spread_over_all_and_has_both_ends(n_rows: int, n: int) -> None:
    rows = 7 * np.arange(n_rows)
    chosen = spread_over(rows, n)
    assert len(chosen) == min(n, n_rows)
    assert np.all(np.diff(chosen) > 0)
    if n_rows:
        assert {chosen[0], chosen[-1]} == {rows[0], rows[-1]}
    if n_rows > n:
        gaps = np.diff(chosen) / 7
        assert gaps.max() - gaps.min() <= 1
