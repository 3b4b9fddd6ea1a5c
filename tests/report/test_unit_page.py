"""A unit's page and picture: which images stand for it, and what is said of them, from known values."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from pipeline.composition import And, Formula, Not, Or, describe, linear
from pipeline.report.inspection import CELL, GAP
from pipeline.report.unit_examples import examples
from pipeline.report.unit_page import (
    About,
    Facts,
    Group,
    Picture,
    Said,
    Score,
    Text,
    UnitView,
    formula_tokens,
    histogram_of,
    index_page,
    letter_of,
    number,
    page_name,
    unit_page,
)
from pipeline.report.unit_sheet import MIN_WIDTH, unit_sheet

NAN = float("nan")
MINUS, TIMES = "\N{MINUS SIGN}", "\N{MULTIPLICATION SIGN}"
DATA = "data:image/jpeg;base64,AAAA"
EVIL = "<script>alert('x')</script> & \"red\""
ABOUT = About("kabc", "layer blocks.6 of net", "test", 400, (("units", "kabc"), ("note", EVIL)), index=True)
SCORE = Score(
    "kdef", "raters", "simulated raters, bragg_em, combined", "sampler.seed=1",
    0.35, 0.245, 0.455, 0.95, "truth",
    3, 38, 150, 450, ("prior_decides",),
)  # fmt: skip
UNSCORED = replace(
    SCORE, kind="labels", by="labels of the dataset", settings="", estimate=NAN, low=NAN, high=NAN, target="",
    rank=0, flags=("no_interval", "no_truth"),
)  # fmt: skip
RED = Text("A", "clip_dissect", "", "red", None, "", (("score", "0.5"),), (SCORE, UNSCORED))
SILENT = Text("", "le_label", "", "", None, "no positive activation", (), ())
PICTURE = Picture("a1", DATA, 1, 3.2, 2.5, (Said("A", "93% · 2 of 3 yes"),))
FACTS = Facts(0.5, 1.25, 3.2, 0.4, 4, 40, (), histogram_of([0.0, 0.0, 1.0, 3.2]))
VIEW = UnitView(
    unit=12,
    judged=True,
    facts=FACTS,
    texts=(RED, SILENT),
    groups=(
        Group("top", "The largest.", (PICTURE,)),
        Group("median", "The middle.", (replace(PICTURE, image_id="b2", rank=200, activation=-0.25),)),
        Group("random", "Drawn.", ()),
    ),
)


class Page(HTMLParser):
    """The tags and the text of a page."""

    VOID = ("meta", "img", "br", "link", "rect", "line", "ellipse", "wbr")

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(html.replace("<wbr>", ""))
        assert not self.open, f"left open: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

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


def slow_examples(activation: list[float], n: int) -> tuple[list[int], list[int]]:
    """Return top and median rows by sorting pairs and by moving out from the middle; none of equal ones."""
    if len(set(activation)) == 1:
        return [], []
    order = [row for _, row in sorted((-value, row) for row, value in enumerate(activation))]
    middle = (len(order) - 1) / 2
    left = sorted(range(len(order)), key=lambda place: (abs(place - middle), place))
    around = [place for place in left if place >= n][:n]
    return order[:n], [order[place] for place in sorted(around)]


@given(st.lists(st.sampled_from([0.0, 0.0, 1.0, 2.5, -3.0]), min_size=1, max_size=40), st.integers(1, 6))
def test_top_and_median_images_are_those_of_the_stated_rules(activation: list[float], n: int) -> None:
    chosen = examples(activation, n, 7)
    assert (chosen.top.tolist(), chosen.median.tolist()) == slow_examples(activation, n)


@given(st.integers(1, 60), st.integers(1, 8), st.integers(0, 5))
def test_no_image_is_in_two_groups_and_each_group_is_as_full_as_can_be(
    n_images: int, n: int, unit: int
) -> None:
    activation = np.random.default_rng(unit).integers(0, 9, n_images)
    chosen = examples(activation, n, unit)
    shown = np.concatenate([chosen.top, chosen.median, chosen.random])
    varies = len(set(activation.tolist())) > 1
    assert len(set(shown)) == len(shown) == min(n_images, 3 * n if varies else n)
    assert [len(group) for group in (chosen.top, chosen.median)] == [
        min(n, n_images) * varies,
        min(n, max(0, n_images - n)) * varies,
    ]
    assert np.all(np.diff(chosen.rank[chosen.random]) > 0)


def test_ties_rank_by_row_and_the_middle_image_is_the_median() -> None:
    chosen = examples([5, 1, 1, 1, 9, 1, 0], 1, 0)
    assert chosen.rank.tolist() == [2, 3, 4, 5, 1, 6, 7]
    assert (chosen.top.tolist(), chosen.median.tolist()) == ([4], [2])


def test_random_images_are_the_same_again_and_others_for_another_unit() -> None:
    activation = np.arange(400)
    first, again, other = (examples(activation, 8, unit).random.tolist() for unit in (3, 3, 4))
    assert first == again != other


def test_a_histogram_counts_every_image_and_knows_the_median() -> None:
    found = histogram_of([0, 0, 0, 1, 10], n_bins=5)
    assert (found.counts, found.low, found.high, found.median) == ((4, 0, 0, 0, 1), 0, 10, 0)
    constant = histogram_of([2, 2, 2])
    assert (constant.counts, constant.low, constant.high, constant.median) == ((3,), 2, 2, 2)


@given(st.recursive(
    st.sampled_from(["red", "wet fur", "nan"]),
    lambda inner: st.builds(Not, inner)
    | st.builds(And, st.tuples(inner, inner))
    | st.builds(Or, st.tuples(inner, inner, inner)),
    max_leaves=6,
))  # fmt: skip
def test_the_pieces_of_a_formula_are_its_text(formula: Formula) -> None:
    told = " ".join(token.text for token in formula_tokens(formula))
    assert told.replace("( ", "(").replace(" )", ")") == describe(formula)


def test_letters_go_on_after_z() -> None:
    assert [letter_of(i) for i in (0, 25, 26, 51, 52, 701, 702)] == ["A", "Z", "AA", "AZ", "BA", "ZZ", "AAA"]


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (0, "0"),
        (5.7, "5.70"),
        (-0.25, f"{MINUS}0.250"),
        (12345.6, "12346"),
        (999.7, "1000"),
        (123.0, "123"),
        (NAN, "-"),
    ],
)
def test_numbers_have_three_digits_and_a_true_minus(value: float, told: str) -> None:
    assert number(value) == told


def test_a_page_needs_no_other_file_and_no_network() -> None:
    for html in (unit_page(VIEW, ABOUT), index_page([VIEW], ABOUT)):
        page = Page(html)
        assert all(str(image["src"]).startswith("data:image/") for image in page.all("img"))
        assert {str(link["href"]) for link in page.all("a")} <= {"index.html", "unit-12.html"}
        assert not page.all("script") and not page.all("link")
        assert "url(" not in html and "@import" not in html and "http:" not in html and "https:" not in html


def test_all_text_is_escaped() -> None:
    text = replace(RED, method=EVIL, settings=EVIL, description=EVIL, facts=((EVIL, EVIL),))
    scored = replace(text, scores=(replace(SCORE, by=EVIL, settings=EVIL, flags=(EVIL,)),))
    composites = [
        replace(text, description=EVIL + word, composition=made)
        for word, made in (("1", linear([(0.5, EVIL)])), ("2", And((EVIL, Not(EVIL)))))
    ]
    said = replace(PICTURE, image_id=EVIL, said=(Said("A", EVIL),))
    view = replace(
        VIEW,
        texts=(scored, *composites, replace(SILENT, reason=EVIL)),
        groups=(Group("top", EVIL, (said,)),),
        notes=(EVIL,),
    )
    for html in (unit_page(view, replace(ABOUT, place=EVIL)), index_page([view], replace(ABOUT, place=EVIL))):
        page = Page(html)
        assert not page.all("script")
        assert EVIL in page.text


def test_a_score_stands_with_its_interval_rank_and_flags() -> None:
    page = Page(unit_page(VIEW, ABOUT))
    row = (
        "simulated raters, bragg_em, combined sampler.seed=1 0.350 0.245 to 0.455 95%, truth 3 of 38 150 450"
    )
    assert f"A clip_dissect red score: 0.5 {row} prior_decides" in page.text
    assert "An interval of “truth” is about the correlation with the concept's presence itself." in page.text
    assert "“rated”" not in page.text


def test_a_missing_score_is_no_zero_and_its_flags_say_why() -> None:
    page = Page(unit_page(VIEW, ABOUT))
    assert "labels of the dataset - none - 150 450 no_truth" in page.text
    assert len(page.all("ellipse")) == 1


def test_a_unit_without_a_text_has_the_reason_and_a_text_may_be_unscored() -> None:
    page = Page(unit_page(VIEW, ABOUT))
    assert "le_label No text: no positive activation Not scored." in page.text
    assert "le_label no positive activation" not in page.text
    assert "no positive activation" in Page(index_page([VIEW], ABOUT)).text


def test_a_weighted_sum_is_shown_by_terms_and_a_formula_by_words() -> None:
    sums = replace(
        RED, description="0.8 dog - 0.3 wet fur", composition=linear([(0.8, "dog"), (-0.3, "wet fur")])
    )
    page = Page(unit_page(replace(VIEW, texts=(sums,)), ABOUT))
    assert f"0.8 {TIMES} dog {MINUS}0.3 {TIMES} wet fur" in page.text
    formula = And((Or(("red", "blue")), Not("round")))
    page = Page(unit_page(replace(VIEW, texts=(replace(RED, composition=formula),)), ABOUT))
    assert "( red OR blue ) AND NOT round" in page.text


def test_each_picture_has_its_activation_rank_and_what_is_said_of_it() -> None:
    page = Page(unit_page(VIEW, ABOUT))
    assert "3.20 · +2.5 sd rank 1 · a1 A 93% · 2 of 3 yes" in page.text
    first, second = page.all("img")
    assert first["alt"] == "image a1, activation 3.20"
    assert second["alt"] == f"image b2, activation {MINUS}0.250"
    assert "Random images There are no more images." in page.text


def test_the_histogram_is_told_in_words() -> None:
    (chart,) = [svg for svg in Page(unit_page(VIEW, ABOUT)).all("svg") if svg.get("role") == "img"]
    assert chart["aria-label"] == (
        "Histogram of 400 activations from 0 to 3.20; the median is 0.500, "
        "and the fullest of 40 bins holds 2 images"
    )


def test_a_constant_unit_says_so_instead_of_a_histogram_ranks_and_most_active_images(tmp_path: Path) -> None:
    facts = replace(
        FACTS, sd=0.0, maximum=2.0, flags=("constant_activation",), histogram=histogram_of([2.0, 2.0])
    )
    picture = replace(PICTURE, standardised=NAN)
    view = replace(VIEW, facts=facts, groups=(Group("random", "Drawn.", (picture,)),))
    page = Page(unit_page(view, ABOUT))
    assert "it has one activation on these images, 2.00 (constant_activation)" in page.text
    assert "no deviation" in page.text and "rank 1 ·" not in page.text
    assert not [svg for svg in page.all("svg") if svg.get("role") == "img"]
    listed = Page(index_page([view], ABOUT))
    assert "12 one activation on these images" in listed.text and not listed.all("img")
    unit_sheet(view, ABOUT, {"a1": Image.new("RGB", (20, 20), "red")}, tmp_path / "unit.png")
    assert (tmp_path / "unit.png").is_file()


def test_a_latent_is_called_one() -> None:
    about = replace(ABOUT, kind="latent")
    view = replace(VIEW, judged=False, texts=())
    html = unit_page(view, about)
    page = Page(html)
    assert "<h1>Latent 12</h1>" in html and "<title>Latent 12:" in html
    assert "Unit 12" not in page.text and "This latent was not judged" in page.text
    assert "1 latent Each" in Page(index_page([view], about)).text


def test_the_legend_says_of_a_sum_that_its_number_is_its_value() -> None:
    sums = replace(RED, letter="B", description="0.5 red", composition=linear([(0.5, "red"), (0.25, "blue")]))
    told = "how likely the scorer finds that text true of the image (a sum: its value), and how many"
    assert told in Page(unit_page(replace(VIEW, texts=(RED, sums)), ABOUT)).text
    assert "a sum" not in Page(unit_page(VIEW, ABOUT)).text


def test_the_legend_has_each_letter_once_in_order() -> None:
    texts = (RED, replace(RED, letter="B", description="blue"), replace(RED, method="invert"))
    assert "A red B blue 3.20" in Page(unit_page(replace(VIEW, texts=texts), ABOUT)).text


def test_long_names_may_break() -> None:
    flags = replace(SCORE, settings="scorer.a_b=1.5e", flags=("prior_decides", "<b>_x"))
    html = unit_page(replace(VIEW, texts=(replace(RED, scores=(flags,)),)), ABOUT)
    assert "prior_<wbr>decides" in html and "scorer.<wbr>a_<wbr>b=<wbr>1.<wbr>5e" in html
    assert "&lt;b&gt;_x" in html and "clip_<wbr>dissect" in html


def test_settings_beside_a_method_do_not_repeat_whose_they_are() -> None:
    text = replace(
        RED, settings="explainer.top=5, explainer.path=my.explainer.csv 1a, explainer_scorer.name=b"
    )
    view = replace(VIEW, texts=(text,))
    for html in (unit_page(view, ABOUT), index_page([view], ABOUT)):
        assert "clip_dissect (top=5, path=my.explainer.csv 1a, explainer_scorer.name=b)" in Page(html).text


def test_a_reason_that_several_units_have_stands_once_below_the_index() -> None:
    dead = replace(SILENT, reason="constant activation", scores=(UNSCORED,))
    views = [replace(VIEW, unit=unit, texts=(dead, replace(dead, method="b"))) for unit in (1, 2)]
    text = Page(index_page([*views, VIEW], ABOUT)).text
    assert text.count("constant activation") == 1 and text.count("no text: reason 1") == 4
    assert (
        "Reason 1 constant activation" in text
        and "labels" not in text.split("Reason 1")[0].split("unit most")[1]
    )
    assert "no text: no positive activation" in text


def test_a_unit_that_nobody_judged_says_so() -> None:
    view = replace(VIEW, judged=False, texts=(), facts=replace(FACTS, sd_rank=0))
    page = Page(unit_page(view, ABOUT))
    assert "This unit was not judged: it is not among the 40 units of kabc" in page.text
    assert "No method has a text for this unit." in page.text
    assert "rank by sd" not in page.text
    assert "12 not judged" in Page(index_page([view], ABOUT)).text


def test_headings_do_not_skip_a_level_and_every_column_has_a_head() -> None:
    page = Page(unit_page(VIEW, ABOUT))
    levels = [tag for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
    assert levels == ["h1", "h2", "h2", "h2", "h2"]
    assert all("scope" in head for head in page.all("th"))


def test_the_index_has_each_methods_text_and_its_first_score() -> None:
    other = replace(VIEW, unit=3, texts=(replace(RED, description="blue", scores=()),))
    page = Page(index_page([VIEW, other], ABOUT))
    assert [link["href"] for link in page.all("a")] == [page_name(12), page_name(3)]
    assert "red 0.350 raters" in page.text and "blue" in page.text
    assert page.text.count("0.350") == 1


def test_a_picture_of_a_unit_has_its_words_above_its_images(tmp_path: Path) -> None:
    images = {name: Image.new("RGB", (20, 20), colour) for name, colour in (("a1", "red"), ("b2", "blue"))}
    unit_sheet(VIEW, ABOUT, images, tmp_path / "unit.png")
    with Image.open(tmp_path / "unit.png") as sheet:
        width, height = sheet.size
        assert width == MIN_WIDTH
        column = [sheet.getpixel((GAP + CELL // 2, y)) for y in range(height)]
        other = sheet.getpixel((2 * GAP + CELL + CELL // 2, column.index((255, 0, 0)) + 5))
    assert column.count((255, 0, 0)) == CELL
    assert column.index((255, 0, 0)) > 5 * 19
    assert other == (0, 0, 255)
    assert [path.name for path in tmp_path.iterdir()] == ["unit.png"]
