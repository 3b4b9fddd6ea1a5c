"""The page of samples: the right pixels, bars and ranks, whole in itself, and sorted in a real browser."""

import base64
import hashlib
import re
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from math import exp, nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from pipeline.report.vlm_page import MAX_TOKENS, sample_page, token_bars, value_range
from pipeline.report.vlm_pixels import (
    AGAINST,
    FOR,
    LARGEST_SIDE,
    LEVELS,
    MAX_BYTES,
    OPACITY,
    canvas_uri,
    heat_uri,
    shade_levels,
)
from pipeline.report.vlm_sheets import MAX_SHEETS, Sheet, sheets_of
from tests.browser.conftest import chromium, open_window  # noqa: F401
from tests.browser.test_page_accessibility import CONTRAST, LEAST_CONTRAST
from tests.report.test_unit_page import EVIL, Page
from tests.report.vlm_examples import CELL, Tables, vlm_tables, write_images

KEY = tuple(CELL.values())
ALL = [
    "rollout", "occlusion", "attnlrp", "ig", "llava_cam", "grad_rollout", "gradcam", "tam", "random",
    "input_x_gradient", "inverted_occlusion",
]  # fmt: skip
scores = st.lists(st.floats(-5, 5).map(lambda value: round(value, 2)), min_size=1, max_size=12)


class Sheets(Page):
    """The tags and the text of a page of samples, without its script."""

    def handle_data(self, data: str) -> None:
        if "script" not in self.open:
            super().handle_data(data)


def decoded(uri: str) -> Image.Image:
    head, _, content = uri.partition(",")
    assert head in ("data:image/png;base64", "data:image/jpeg;base64")
    return Image.open(BytesIO(base64.b64decode(content)))


@pytest.fixture
def made(tmp_path: Path) -> tuple[Tables, list[Sheet]]:
    """Tables of 6 samples, all with images, and their sheets."""
    tables = vlm_tables()
    return tables, sheets_of(tables, write_images(tables, tmp_path), KEY)


# pixels


@given(scores)
def test_shades_keep_order_and_sign_and_reach_the_end(values: list[float]) -> None:
    shades = shade_levels(values)
    order = np.argsort(values, kind="stable")
    assert (np.diff(shades[order]) >= 0).all()
    if min(values) == max(values):
        assert not shades.any()
    elif min(values) < 0:
        assert np.abs(shades).max() == LEVELS
        assert all(shade * value >= 0 for shade, value in zip(shades, values, strict=True))
    else:
        assert (shades.min(), shades.max()) == (0, LEVELS)


@given(scores.filter(lambda values: min(values) < 0 < max(values)))
def test_an_inverted_map_has_inverted_shades(values: list[float]) -> None:
    assert (shade_levels([-value for value in values]) == -shade_levels(values)).all()


def test_a_map_is_a_pixel_a_patch_in_reading_order() -> None:
    image = decoded(heat_uri([1.0, -0.5, 0.0, 0.25, 0.0, 0.0], (2, 3))).convert("RGBA")
    assert image.size == (3, 2)
    assert image.getpixel((0, 0)) == (*FOR, round(255 * OPACITY))
    assert image.getpixel((1, 0)) == (*AGAINST, round(255 * OPACITY / 2))
    assert image.getpixel((0, 1)) == (*FOR, round(255 * OPACITY / 4))
    assert [image.getpixel(at)[3] for at in ((2, 0), (1, 1), (2, 1))] == [0, 0, 0]


def test_a_small_canvas_keeps_its_pixels_and_a_large_one_is_small_enough(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for side, kind in ((64, "PNG"), (336, "JPEG"), (900, "JPEG")):
        pixels = rng.integers(0, 256, (side, side, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "a.png")
        uri, size = canvas_uri(tmp_path / "a.png")
        image = decoded(uri)
        assert (image.format, size) == (kind, (side, side))
        assert image.size == (min(side, LARGEST_SIDE),) * 2
        if kind == "PNG":
            assert (np.asarray(image) == pixels).all()
    Image.fromarray(np.kron(pixels[:8, :8], np.ones((42, 42, 1), np.uint8))).save(tmp_path / "a.png")
    assert len(base64.b64decode(canvas_uri(tmp_path / "a.png")[0].partition(",")[2])) <= MAX_BYTES


# bars and curves


def test_a_bar_is_a_share_of_the_strongest_token() -> None:
    bars = token_bars(["a", "red", "circle"], [0.5, 1.0, -0.25])
    assert [(bar.token, bar.percent, bar.gap) for bar in bars] == [
        ("a", 50, False),
        ("red", 100, False),
        ("circle", -25, False),
    ]
    assert [bar.percent for bar in token_bars(["a", "b"], [0.3, 0.3])] == [0, 0]


@given(st.lists(st.integers(-9, 9), min_size=MAX_TOKENS + 1, max_size=60))
def test_a_long_question_keeps_its_strongest_tokens_in_order_and_marks_the_gaps(values: list[int]) -> None:
    bars = token_bars([str(i) for i in range(len(values))], [float(value) for value in values])
    ranked = sorted(enumerate(values), key=lambda pair: (-abs(pair[1]), pair[0]))[:MAX_TOKENS]
    kept = sorted(i for i, _ in ranked)
    assert [int(bar.token) for bar in bars] == kept
    assert [bar.gap for bar in bars] == [i > 0 and i - 1 not in kept for i in kept]


def test_all_curves_share_a_scale_that_holds_zero_and_every_d(made: tuple[Tables, list[Sheet]]) -> None:
    tables, sheets = made
    curves = tables["curves"][["ins", "del"]].to_numpy()
    assert value_range(sheets) == pytest.approx((min(0, curves.min()), curves.max()))
    assert value_range([*sheets, replace(sheets[0], dividend=-5.0)])[0] == -5
    assert value_range([replace(sheets[0], dividend=nan, explanations=())]) == (-0.5, 0.5)


def test_a_sample_whose_d_is_near_0_has_flat_curves(made: tuple[Tables, list[Sheet]]) -> None:
    first, second = made[1][:2]
    assert (second.answer, second.dividend) == ("no", 0)
    plots = re.findall(r'<polyline class="ins" points="([^"]+)"', sample_page([first, second], "title"))
    heights = [{float(point.split(",")[1]) for point in plot.split()} for plot in plots]
    assert all(len(found) > 5 for found in heights[:6])
    assert all(len(found) == 1 for found in heights[6:])
    assert len(heights) == 12


# sheets


def test_a_sheet_holds_what_the_tables_say_of_its_sample(made: tuple[Tables, list[Sheet]]) -> None:
    tables, sheets = made
    assert [sheet.sample_id for sheet in sheets] == tables["samples"]["sample_id"].tolist()
    row = tables["samples"].iloc[2]
    assert (sheets[2].question, list(sheets[2].tokens)) == (row["question"], row["tokens"])
    assert (sheets[2].answer, sheets[2].expected, sheets[2].correct) == (
        "yes",
        row["expected"],
        row["correct"],
    )
    assert sheets[2].probability == pytest.approx(exp(row["log_probability"]))
    assert (sheets[2].size, sheets[2].grid) == ((64, 64), (4, 4))
    for each in sheets[2].explanations:
        at = [
            table[(table["sample_id"] == "test-002") & (table["explainer"] == each.explainer)]
            for table in (tables["scores"], tables["maps"], tables["curves"])
        ]
        assert each.f == at[0]["f"].item()
        assert (list(each.patches), list(each.tokens)) == (at[1]["patches"].item(), at[1]["tokens"].item())
        assert list(each.ins) == at[2]["ins"].tolist()
        assert sheets[2].dividend == at[0]["dividend"].item()


def test_explainers_stand_by_mean_f_of_all_samples_even_where_few_are_shown(tmp_path: Path) -> None:
    tables = vlm_tables()
    first = tables["scores"]["sample_id"] == "test-000"
    tables["scores"] = tables["scores"].assign(f=tables["scores"]["f"].mask(first, -tables["scores"]["f"]))
    means = tables["scores"].groupby("explainer")["f"].mean().sort_values(ascending=False)
    sheets = sheets_of(tables, write_images(tables, tmp_path), KEY, limit=1)
    assert len(sheets) == 1
    assert [each.explainer for each in sheets[0].explanations] == means.index.tolist()


def test_ranks_in_a_sample_are_by_f_as_it_is_shown() -> None:
    tables = vlm_tables(explainers=("rollout", "occlusion", "random", "ig"), n_samples=1)
    f = {"rollout": 0.5002, "occlusion": 0.4998, "random": nan, "ig": 0.1}
    tables["scores"]["f"] = tables["scores"]["explainer"].map(f)
    found = {
        each.explainer: (each.rank, each.n_ranked) for each in sheets_of(tables, {}, KEY)[0].explanations
    }
    assert found == {"rollout": (1, 3), "occlusion": (1, 3), "ig": (3, 3), "random": (0, 3)}


def test_samples_of_another_cell_are_not_mixed_in(tmp_path: Path) -> None:
    cells = [CELL, CELL | {"vlm": "llava"}]
    tables = vlm_tables(cells=cells, n_samples=2)
    images = write_images(tables, tmp_path)
    sheets = sheets_of(tables, images, ("llava", "shapes_vqa"))
    mine = tables["scores"][tables["scores"]["vlm"] == "llava"]
    assert {each.f for sheet in sheets for each in sheet.explanations} == set(mine["f"])
    assert sheets[0].canvas == canvas_uri(images["llava", "shapes_vqa", "test-000"])[0]


def test_a_failed_explainer_and_a_sample_that_cannot_be_asked_are_told(tmp_path: Path) -> None:
    tables = vlm_tables(explainers=("rollout", "ig"), n_samples=2)
    tables["samples"].loc[1, ["flag", "answer"]] = ["cannot_be_asked: no word", ""]
    for name in ("scores", "maps", "curves"):
        table = tables[name]
        lost = (table["explainer"] == "ig") & (name != "scores")
        tables[name] = table[(table["sample_id"] == "test-000") & ~lost]
    failed = tables["scores"]["explainer"] == "ig"
    tables["scores"] = tables["scores"].assign(
        f=tables["scores"]["f"].mask(failed), flags=np.where(failed, "failed: out of memory", "")
    )
    first, second = sheets_of(tables, write_images(tables, tmp_path), KEY)
    assert [(each.explainer, each.rank, each.patches, each.ins) for each in first.explanations][1] == (
        "ig", 0, (), (),
    )  # fmt: skip
    assert second.explanations == ()
    text = Sheets(sample_page([first, second], "title")).text
    assert "ig no F no map no curves failed: out of memory" in text
    assert "left out cannot be asked: no word" in text
    assert "No explainer was asked." in text


# the page


def test_a_page_needs_nothing_else_and_runs_its_own_script_alone(made: tuple[Tables, list[Sheet]]) -> None:
    html = sample_page(made[1], "title")
    page = Sheets(html)
    assert not page.all("link")
    urls = re.findall(r"""(?:src|href)=["']?([^"' >]+)|url\(([^)]+)\)""", html)
    assert {(one or other)[:11] for one, other in urls} == {"data:image/"}
    script = re.search(r"<script>(.*)</script>", html, re.S)
    policy = next(meta["content"] for meta in page.all("meta") if "http-equiv" in meta)
    assert script
    assert policy
    digest = base64.b64encode(hashlib.sha256(script[1].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none';")


def test_all_text_is_escaped(made: tuple[Tables, list[Sheet]]) -> None:
    first = made[1][0]
    evil = replace(first.explanations[0], explainer=EVIL, flags=(EVIL,))
    sheet = replace(
        first, sample_id=EVIL, question=EVIL, answer=EVIL, expected=EVIL, category=EVIL,
        tokens=(EVIL,) * len(first.tokens), explanations=(evil,),
    )  # fmt: skip
    html = sample_page([sheet, replace(sheet, flag=EVIL)], EVIL, facts=((EVIL, EVIL),))
    assert html.count("<script") == 1
    assert Sheets(html).text.count("<script>alert") > 10


def test_what_is_left_out_is_counted(made: tuple[Tables, list[Sheet]]) -> None:
    sheet = made[1][0]
    plain = replace(sheet, explanations=())
    text = Sheets(sample_page([plain] * (MAX_SHEETS + 2), "title")).text
    assert f"{MAX_SHEETS} samples of {MAX_SHEETS + 2}: the first ones; 2 more are in the tables" in text
    text = Sheets(sample_page([plain], "title", n_samples=2000)).text
    assert "1 sample of 2,000: the first ones; 1,999 more are in the tables" in text
    assert "more" not in Sheets(sample_page([], "title")).text.split("A model")[0]


def test_ties_bounds_and_flags_are_told_beside_a_map(made: tuple[Tables, list[Sheet]]) -> None:
    sheet = made[1][0]
    shown = replace(
        sheet.explanations[0], explainer="occlusion", flags=("constant_tokens",), patches=(0.0,) * 16
    )
    html = sample_page([replace(sheet, explanations=(shown,))], "title")
    text = Sheets(html).text
    assert "upper bound tied: 25% of patches F over 5 tie-breaks, sd 0.01 constant tokens" in text
    assert 'alt="all patches alike"' in html
    peak = replace(shown, patches=tuple(float(i == 6) for i in range(16)))
    html = sample_page([replace(sheet, explanations=(peak,))], "title")
    assert 'alt="highest at row 2, column 3 of 4 by 4"' in html


@pytest.mark.parametrize(("side", "grid", "limit"), [(64, (4, 4), 25_000), (336, (24, 24), 80_000)])
def test_a_sheet_of_eleven_explainers_is_small(
    tmp_path: Path, side: int, grid: tuple[int, int], limit: int
) -> None:
    tables = vlm_tables(explainers=ALL, n_samples=2, grid=grid, tokens=["word"] * (6 if side == 64 else 30))
    sheets = sheets_of(tables, write_images(tables, tmp_path, (side, side)), KEY)
    one, two = (len(sample_page(sheets[:n], "title").encode()) for n in (1, 2))
    assert two - one <= limit


# in a browser

Opener = Callable[..., Any]
PHONE = {"viewport": {"width": 375, "height": 720}, "has_touch": True, "is_mobile": True}
IDS = "[...document.querySelectorAll('.sheet:not([hidden])')].map((each) => each.dataset.order - 1)"
PICTURES = """async () => {
  const maps = [...document.querySelectorAll(".map img")].map((each) => each.naturalWidth);
  const sheets = document.querySelectorAll(".sheet");
  const canvases = [];
  for (const sheet of sheets) {
    const image = new Image();
    image.src = getComputedStyle(sheet).getPropertyValue("--canvas").trim().slice(4, -1);
    await image.decode();
    canvases.push(image.naturalWidth);
  }
  return [maps, canvases];
}"""


@pytest.fixture
def page_file(made: tuple[Tables, list[Sheet]], tmp_path: Path) -> Path:
    path = tmp_path / "samples.html"
    path.write_text(sample_page(made[1], "tiny_llava", facts=(("rule", "trapezoid"),)), encoding="utf-8")
    return path


def by(values: list[float], sign: int) -> list[int]:
    return sorted(range(len(values)), key=lambda i: sign * values[i])


def test_the_page_asks_for_nothing_and_its_images_load(page_file: Path, open_window: Opener) -> None:  # noqa: F811
    window = open_window("about:blank")
    asked: list[str] = []
    window.page.on("request", lambda request: asked.append(request.url))
    window.page.goto(page_file.as_uri())
    maps, canvases = window.page.evaluate(PICTURES)
    assert maps == [4] * 36
    assert canvases == [64] * 6
    assert [url for url in asked if not url.startswith("data:image/")] == [page_file.as_uri()]


def test_sheets_are_sorted_and_filtered_by_keyboard(
    page_file: Path,
    made: tuple[Tables, list[Sheet]],
    open_window: Opener,  # noqa: F811
) -> None:
    page, sheets = open_window(page_file.as_uri()).page, made[1]
    assert page.evaluate(IDS) == list(range(6))
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")
    assert page.evaluate(IDS) == by([sheet.dividend for sheet in sheets], -1)
    assert page.locator("#shown").inner_text() == "6 of 6 samples shown, D, highest first"
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")
    name = page.evaluate("document.activeElement.value")
    f = [next(each.f for each in sheet.explanations if each.explainer == name) for sheet in sheets]
    assert page.evaluate(IDS) == by(f, -1)
    assert page.locator("#shown").inner_text() == f"6 of 6 samples shown, F, highest first ({name})"
    page.get_by_label("Sort by").select_option(label="probability, lowest first")
    assert page.evaluate(IDS) == by([sheet.probability for sheet in sheets], 1)
    page.get_by_label("Show").select_option(label="wrong answers")
    wrong = [i for i in by([sheet.probability for sheet in sheets], 1) if not sheets[i].correct]
    assert page.evaluate(IDS) == wrong
    assert wrong
    page.get_by_label("Show").select_option(label="answered “no”")
    page.get_by_label("Sort by").select_option(label="the dataset's order")
    assert page.evaluate(IDS) == [i for i, sheet in enumerate(sheets) if sheet.answer == "no"]


def test_samples_without_the_value_come_last_either_way(
    made: tuple[Tables, list[Sheet]],
    tmp_path: Path,
    open_window: Opener,  # noqa: F811
) -> None:
    first, *others = made[1]
    lacking = replace(first, dividend=nan, explanations=(replace(first.explanations[0], f=nan, rank=0),))
    path = tmp_path / "lacking.html"
    path.write_text(sample_page([lacking, *others], "title"), encoding="utf-8")
    page = open_window(path.as_uri()).page
    for key in ("D", "F"):
        for end in ("highest", "lowest"):
            page.get_by_label("Sort by").select_option(label=f"{key}, {end} first")
            assert page.evaluate(IDS)[-1] == 0


def test_without_scripts_everything_is_there_and_no_control(page_file: Path, open_window: Opener) -> None:  # noqa: F811
    page = open_window(page_file.as_uri(), java_script_enabled=False).page
    assert page.locator(".sheet").count() == 6
    assert page.locator(".card").first.is_visible()
    assert page.locator("#controls").is_hidden()


@pytest.mark.parametrize("width", [320, 375])
def test_a_phone_shows_it_without_scrolling_sideways(
    page_file: Path,
    open_window: Opener,  # noqa: F811
    width: int,
) -> None:
    page = open_window(page_file.as_uri(), **PHONE | {"viewport": {"width": width, "height": 720}}).page
    assert page.evaluate("document.documentElement.scrollWidth") == width


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_ground(page_file: Path, open_window: Opener, scheme: str) -> None:  # noqa: F811
    found = open_window(page_file.as_uri(), color_scheme=scheme).page.evaluate(CONTRAST)
    assert {"✗ wrong", "✓ right", "orange, bar up"} <= {text for text, _ in found}
    assert [pair for pair in found if pair[1] < LEAST_CONTRAST] == []
