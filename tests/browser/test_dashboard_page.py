"""The owner's dashboard in a real browser."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

Opener = Callable[..., Any]
NO_CONNECTION = "No connection: these figures are not the newest"


def words(window: Any) -> list[str]:
    """What the dashboard says, but for when raters were seen."""
    text = window.page.locator("main").inner_text()
    return re.sub(r"just now|not yet|\d{4}-\d\d-\S+", "-", text).split()


def open_with_clock(site: Any, open_window: Opener) -> Any:
    """Open the dashboard with a clock that the test turns."""
    window = open_window("about:blank")
    window.page.clock.install()
    window.page.goto(site.dashboard)
    window.page.get_by_text("Updated").wait_for()
    return window


def test_the_dashboard_reads_the_same_from_the_server_and_from_its_script(
    site: Any, open_window: Opener
) -> None:
    site.rate(0, 2)
    site.rate(0, 0, seconds=0.5)
    site.rate(1, 3, seconds=7.4)
    plain = open_window(site.dashboard, java_script_enabled=False)
    window = open_window(site.dashboard)
    window.page.get_by_text("Updated").wait_for()
    assert words(window) == words(plain)
    bars = "[...document.querySelectorAll('#stack rect')].map((each) => Number(each.getAttribute('width')))"
    assert sum(window.page.evaluate(bars)) == 1000
    assert "18 on this page" in window.page.locator("main").inner_text()


def test_new_ratings_show_without_a_reload_and_buttons_keep_the_focus(site: Any, open_window: Opener) -> None:
    window = open_with_clock(site, open_window)
    window.page.get_by_role("button", name="Copy the link of rater-2").focus()
    assert window.page.locator("#ratings").inner_text() == "0"
    site.rate(0, 2)
    window.page.clock.run_for(5_000)
    window.page.locator("#ratings", has_text="6").wait_for()
    assert window.page.evaluate("document.activeElement.ariaLabel") == "Copy the link of rater-2"


def test_a_raters_link_is_copied_whole(site: Any, open_window: Opener) -> None:
    window = open_window(site.dashboard, permissions=["clipboard-read", "clipboard-write"])
    window.page.get_by_role("button", name="Copy the link of rater-2").click()
    window.says("The link of rater-2 is copied.")
    assert window.page.evaluate("navigator.clipboard.readText()") == site.link(1)


def test_where_copying_is_forbidden_the_link_is_shown(site: Any, open_window: Opener) -> None:
    window = open_window(site.dashboard)
    window.page.evaluate(
        "() => { navigator.clipboard.writeText = () => Promise.reject(new Error('forbidden')); }"
    )
    window.page.get_by_role("button", name="Copy the link of rater-3").click()
    shown = window.page.get_by_label("Copy this link")
    shown.wait_for()
    assert shown.input_value() == site.link(2)


def test_the_export_is_downloaded(site: Any, open_window: Opener, tmp_path: Path) -> None:
    site.rate(0, 2)
    window = open_window(site.dashboard)
    with window.page.expect_download() as download:
        window.page.get_by_role("link", name="Download ratings.csv").click()
    download.value.save_as(tmp_path / "got.csv")
    assert len(site.exported()) == 6
    assert (tmp_path / "got.csv").read_bytes() == (site.folder / "exported.csv").read_bytes()


def test_a_lost_connection_is_said_and_the_figures_stay(site: Any, open_window: Opener) -> None:
    site.rate(0, 2)
    window = open_with_clock(site, open_window)
    window.expected += ["net::ERR_INTERNET_DISCONNECTED"]
    window.page.context.set_offline(True)
    window.page.clock.run_for(5_000)
    window.page.get_by_text(NO_CONNECTION).wait_for()
    assert window.page.locator("#ratings").inner_text() == "6"
    window.page.context.set_offline(False)
    window.page.clock.run_for(5_000)
    window.page.get_by_text("Updated").wait_for()


def test_a_raters_token_opens_no_dashboard(site: Any, open_window: Opener) -> None:
    window = open_window(f"{site.url}/owner/{site.tokens[0]}")
    window.expected += ["Failed to load resource"]
    assert "leads nowhere" in window.page.locator("main").inner_text()
    assert "rater-" not in window.page.locator("body").inner_text()


def test_the_dashboard_fits_a_phone(site: Any, open_window: Opener, phone: Any) -> None:
    site.rate(0, 2)
    window = open_window(site.dashboard, **phone)
    window.page.get_by_text("Updated").wait_for()
    assert window.page.evaluate("document.documentElement.scrollWidth") <= 375
