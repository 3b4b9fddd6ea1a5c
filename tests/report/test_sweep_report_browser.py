"""The report of a sweep in a real browser: nothing fails, nothing is asked for, everything can be used."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from pipeline.report.sweep_report import sweep_report
from tests.browser.conftest import chromium, open_window  # noqa: F401
from tests.browser.test_page_accessibility import CONTRAST, LEAST_CONTRAST
from tests.report.report_examples import (
    crowd_inputs,
    crowd_scores,
    figure,
    gallery,
    sae_inputs,
    vlm_inputs,
)

Opener = Callable[..., Any]
LEVELS = {"dissect": 0.6, "csv": 0.3, "random": 0.0}
PHONE = {"viewport": {"width": 375, "height": 720}, "has_touch": True, "is_mobile": True}
CHARTS = "document.body.dataset.charts === String(document.querySelectorAll('.chart').length)"
IMAGES = "[...document.images].map((each) => each.complete && each.naturalWidth)"
COLUMN = "[...document.querySelectorAll('#table-ranking tbody tr')].map((row) => row.cells[1].textContent)"
SORTED = "[...document.querySelectorAll('#table-ranking th')].map((each) => each.ariaSort || '')"
TRACKS = ("crowd", "vlm", "sae")
OPEN_BUT_TABLES = (
    "for (const each of document.querySelectorAll('details')) each.open = !each.closest('#tables, #points')"
)
OPEN = "for (const each of document.querySelectorAll('details')) each.open = true"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A report of each track, as files."""
    folder = tmp_path_factory.mktemp("reports")
    plates = {name: figure(folder, name) for name in ("comparison", "ranking", "sizes")}
    scores = crowd_scores(LEVELS)
    made = {
        "crowd": crowd_inputs(scores, gallery=gallery(), figures={"comparison": plates["comparison"]}),
        "vlm": vlm_inputs(folder, figures={"ranking": plates["ranking"]}),
        "sae": sae_inputs(figures={"sizes": plates["sizes"]}),
    }
    found = {name: folder / f"{name}.html" for name in made}
    for name, path in found.items():
        path.write_text(sweep_report(made[name]), encoding="utf-8")
    return found


def opened(open_window: Opener, path: Path, **options: Any) -> Any:  # noqa: F811
    """Open a report and wait until its charts are there."""
    page = open_window(path.as_uri(), **options).page
    page.wait_for_function(CHARTS)
    return page


@pytest.mark.parametrize("track", TRACKS)
def test_no_request_leaves_the_file_and_every_image_and_chart_is_there(
    pages: dict[str, Path],
    track: str,
    open_window: Opener,  # noqa: F811
) -> None:
    window = open_window("about:blank")
    asked: list[str] = []
    window.page.on("request", lambda request: asked.append(request.url))
    window.page.goto(pages[track].as_uri())
    window.page.wait_for_function(CHARTS)
    window.page.evaluate(OPEN)
    assert [url for url in asked if not url.startswith("data:")] == [pages[track].as_uri()]
    sizes = window.page.evaluate(IMAGES)
    assert sizes
    assert all(sizes)
    assert window.page.locator(".chart").count() > 0
    assert window.page.locator(".chart .live svg").count() == window.page.locator(".chart").count()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("track", TRACKS)
def test_text_stands_out_from_its_ground(
    pages: dict[str, Path],
    track: str,
    scheme: str,
    open_window: Opener,  # noqa: F811
) -> None:
    page = opened(open_window, pages[track], color_scheme=scheme)
    page.evaluate(OPEN)
    assert [pair for pair in page.evaluate(CONTRAST) if pair[1] < LEAST_CONTRAST] == []


@pytest.mark.parametrize(
    ("track", "scheme", "opening"),
    [
        ("crowd", "light", OPEN_BUT_TABLES),
        *(pytest.param(t, s, OPEN, marks=pytest.mark.long) for t in TRACKS for s in ("light", "dark")),
    ],
)
def test_axe_finds_nothing(
    pages: dict[str, Path],
    track: str,
    scheme: str,
    opening: str,
    open_window: Opener,  # noqa: F811
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page = opened(open_window, pages[track], color_scheme=scheme)
    page.evaluate(opening)
    violations = Axe().run(page).response["violations"]
    assert [(each["id"], each["nodes"][0]["html"][:120]) for each in violations] == []


def test_tables_are_sorted_by_keyboard_and_say_so(pages: dict[str, Path], open_window: Opener) -> None:  # noqa: F811
    page = opened(open_window, pages["crowd"])
    assert page.evaluate(COLUMN) == ["dissect", "csv", "random"]
    page.get_by_role("button", name="mean score (interval)").first.focus()
    page.keyboard.press("Enter")
    assert page.evaluate(COLUMN) == ["dissect", "csv", "random"]
    assert page.evaluate(SORTED)[:3] == ["", "", "descending"]
    page.keyboard.press("Enter")
    assert page.evaluate(COLUMN) == ["random", "csv", "dissect"]
    assert page.evaluate(SORTED)[:3] == ["", "", "ascending"]
    page.get_by_role("button", name="method", exact=True).first.click()
    assert page.evaluate(COLUMN) == ["csv", "dissect", "random"]


def test_cells_without_a_number_come_last_either_way(pages: dict[str, Path], open_window: Opener) -> None:  # noqa: F811
    page = opened(open_window, pages["vlm"])
    for _ in range(2):
        page.get_by_role("button", name="over random (interval)").first.click()
        assert page.evaluate(COLUMN)[-1] == "random"


def test_a_table_is_downloaded_with_every_digit(
    pages: dict[str, Path],
    open_window: Opener,  # noqa: F811
    tmp_path: Path,
) -> None:
    page = opened(open_window, pages["crowd"])
    page.evaluate(OPEN)
    with page.expect_download() as download:
        page.get_by_role("link", name="Scores as CSV").click()
    assert download.value.suggested_filename == "trial_scores.csv"
    download.value.save_as(tmp_path / "scores.csv")
    saved = pd.read_csv(tmp_path / "scores.csv")
    assert list(saved["estimate"]) == list(crowd_scores(LEVELS)["estimate"])


def test_a_figure_is_downloaded(pages: dict[str, Path], open_window: Opener, tmp_path: Path) -> None:  # noqa: F811
    page = opened(open_window, pages["crowd"])
    page.evaluate(OPEN)
    with page.expect_download() as download:
        page.get_by_role("link", name="Save as SVG").click()
    download.value.save_as(tmp_path / "figure.svg")
    assert (tmp_path / "figure.svg").read_text(encoding="utf-8").startswith("<svg")


def test_a_key_is_copied_by_keyboard(pages: dict[str, Path], open_window: Opener) -> None:  # noqa: F811
    page = opened(open_window, pages["crowd"], permissions=["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy key k000000000000").first.focus()
    page.keyboard.press("Enter")
    page.locator("#told", has_text="k000000000000 is copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == "k000000000000"


def test_units_are_found_by_their_texts(pages: dict[str, Path], open_window: Opener) -> None:  # noqa: F811
    page = opened(open_window, pages["crowd"])
    page.get_by_label("Find a unit or text").fill("csv text 1")
    assert page.locator(".unit:visible h3").all_inner_texts() == ["Unit 1"]
    assert page.locator(".found").inner_text() == "1 of 2 units shown"


def test_a_mark_tells_what_it_is(pages: dict[str, Path], open_window: Opener) -> None:  # noqa: F811
    page = opened(open_window, pages["crowd"])
    page.locator(".live .mark-symbol path").first.hover(force=True)
    tip = page.locator("#vg-tooltip-element.visible")
    tip.wait_for()
    assert {"method", "unit", "description"} <= set(tip.locator("td.key").all_inner_texts()) | {
        text.rstrip(":") for text in tip.locator("td.key").all_inner_texts()
    }


@pytest.mark.parametrize("track", TRACKS)
@pytest.mark.parametrize("width", [320, 375])
def test_a_phone_shows_it_without_scrolling_sideways(
    pages: dict[str, Path],
    track: str,
    width: int,
    open_window: Opener,  # noqa: F811
) -> None:
    page = opened(open_window, pages[track], **PHONE | {"viewport": {"width": width, "height": 720}})
    page.evaluate(OPEN)
    assert page.evaluate("document.documentElement.scrollWidth") == width


def test_without_scripts_charts_are_drawn_and_nothing_is_hidden(
    pages: dict[str, Path],
    open_window: Opener,  # noqa: F811
) -> None:
    page = open_window(pages["crowd"].as_uri(), java_script_enabled=False).page
    assert page.locator(".chart .drawn svg").first.is_visible()
    assert page.locator(".chart .live").first.is_hidden()
    assert page.locator(".pick").is_hidden()
    assert page.locator("#table-ranking th button").count() == 0
    assert page.get_by_role("link", name="Methods as CSV").first.is_visible()


def test_in_print_figures_and_settings_are_open(pages: dict[str, Path], open_window: Opener) -> None:  # noqa: F811
    page = opened(open_window, pages["crowd"])
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator(".plate img").is_visible()
    assert page.locator("#points .config").first.is_visible()
    assert page.locator("#tables .folded").first.is_hidden()
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details[open]").count() == 0
