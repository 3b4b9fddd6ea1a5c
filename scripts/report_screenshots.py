"""Photograph the reports of the demos: `python scripts/report_screenshots.py demo sae_demo vlm_demo`.

Each sweep must have been run; its page opens in headless Chromium, and its beginning, light and dark side by
side, becomes docs/figures/report_<sweep>.png. `--each FOLDER` also keeps
whole pages: light, dark, phone, print.
"""

import argparse
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright
from rating_screenshots import ARGUMENTS, CHROMIUM, PHONE, SCHEMES, photograph, side_by_side

WINDOW = {"width": 1000, "height": 1150}
PAPER = {"width": 703, "height": 1017}
"""A4 without its margins, in CSS pixels."""
COLOURS = 96
CHARTS = "document.body.dataset.charts === String(document.querySelectorAll('.chart').length)"


def main() -> None:
    """Open, photograph, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sweeps", nargs="+", help="names of sweeps that were run")
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--out", type=Path, default=Path("docs/figures"))
    parser.add_argument("--each", type=Path, help="folder for whole pages")
    chosen = parser.parse_args()
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        with closing(launched) as browser:
            for sweep in chosen.sweeps:
                report = chosen.results / "sweeps" / sweep / "latest" / "report.html"
                write_figure(browser, report, chosen.out / f"report_{sweep}.png")
                if chosen.each:
                    write_pages(browser, report, chosen.each / sweep)


def write_figure(browser: Browser, report: Path, path: Path) -> None:
    """Write the beginning of a report, light and dark side by side."""
    pictures = []
    for scheme in SCHEMES:
        with opened(browser, report, viewport=WINDOW, color_scheme=scheme) as page:
            pictures.append(photograph(page))
    figure = side_by_side(pictures)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)


def write_pages(browser: Browser, report: Path, stem: Path) -> None:
    """Write whole pages: light, dark, on a phone, and as it is printed."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    views: dict[str, dict[str, Any]] = {
        **{scheme: {"viewport": WINDOW, "color_scheme": scheme} for scheme in SCHEMES},
        "phone": {"viewport": PHONE, "is_mobile": True, "has_touch": True},
        "print": {"viewport": PAPER},
    }
    for name, options in views.items():
        with opened(browser, report, **options) as page:
            if name == "print":
                page.emulate_media(media="print")
                page.evaluate("dispatchEvent(new Event('beforeprint'))")
            photograph(page, full_page=True).save(f"{stem}_{name}.png")


@contextmanager
def opened(browser: Browser, report: Path, **options: Any) -> Iterator[Page]:
    """Open a report in a window of its own, and wait until its charts are drawn."""
    context = browser.new_context(**options)
    page = context.new_page()
    page.goto(report.resolve().as_uri())
    page.wait_for_function(CHARTS)
    yield page
    context.close()


if __name__ == "__main__":
    main()
