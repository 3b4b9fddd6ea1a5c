"""The site of docs/: it builds strictly without a network, leaves no page out, and asks no other host."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipeline.plan.stages import STAGES

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
BUILD = [str(Path(sys.executable).parent / "zensical"), "build", "--strict"]


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    """Build the site of a folder, without a network where the system lets us take it away."""
    offline = ["unshare", "-rn"]
    may = shutil.which("unshare") and subprocess.run([*offline, "true"], check=False).returncode == 0
    command = [*(offline if may else []), *BUILD]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def copy_docs(folder: Path) -> Path:
    shutil.copy(ROOT / "mkdocs.yml", folder)
    shutil.copytree(DOCS, folder / "docs")
    return folder


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site."""
    folder = copy_docs(tmp_path_factory.mktemp("site"))
    done = build(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site"


def test_every_page_is_built_and_stands_once_in_the_navigation(site: Path) -> None:
    named = list(pages_of(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]))
    assert sorted(named) == sorted(path.name for path in DOCS.glob("*.md"))
    assert all((site / name).with_suffix(".html").is_file() for name in named)


def pages_of(nav: Any) -> Iterator[str]:
    """Yield the pages of a navigation, however deep."""
    if isinstance(nav, str):
        yield nav
    for part in nav.values() if isinstance(nav, dict) else nav if isinstance(nav, list) else ():
        yield from pages_of(part)


class Loads(HTMLParser):
    """Collects what a browser fetches for a page by itself: everything but where a reader may go."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        own = {"src", "srcset", "poster", "data"} | ({"href"} if tag == "link" else set())
        self.addresses += [value for name, value in attrs if name in own and value]


def is_elsewhere(address: str) -> bool:
    return re.match(r"(https?:)?//", address) is not None


def test_no_page_asks_another_host(site: Path) -> None:
    for page in site.rglob("*.html"):
        loads = Loads()
        loads.feed(page.read_text(encoding="utf-8"))
        assert loads.addresses
        assert [address for address in loads.addresses if is_elsewhere(address)] == [], page.name
    for sheet in site.rglob("*.css"):
        found = re.findall(
            r"url\(['\"]?([^)'\"]+)|@import\s+['\"]([^'\"]+)", sheet.read_text(encoding="utf-8")
        )
        assert [address for pair in found for address in pair if is_elsewhere(address)] == [], sheet.name


@pytest.mark.parametrize("link", ["[gone](gone.md)", "[gone](crowd.md#no-such-part)"])
def test_a_link_to_nowhere_stops_the_build(tmp_path: Path, link: str) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "mkdocs.yml").write_text("site_name: small\nnav: [index.md, crowd.md]\n")
    (tmp_path / "docs" / "index.md").write_text(f"# A page\n\n{link}\n")
    (tmp_path / "docs" / "crowd.md").write_text("# Another\n")
    done = build(tmp_path)
    assert done.returncode != 0
    assert "does not exist" in done.stdout + done.stderr


def test_the_page_of_results_tells_of_every_stage_and_of_files_that_are_written() -> None:
    text = (DOCS / "results.md").read_text(encoding="utf-8")
    table = text.partition("## What each stage writes")[2].partition("\n## ")[0]
    rows = dict(re.findall(r"^\| ([a-z_]+) \| (.+) \|$", table, flags=re.MULTILINE))
    assert set(STAGES) <= set(rows)
    code = "\n".join(path.read_text() for path in (ROOT / "pipeline").rglob("*.py"))
    for stage, files in rows.items():
        for name in re.findall(r"\b([a-z_]+)\.(?:parquet|npy|json|safetensors|html)\b", files):
            assert re.search(rf"\b{name}\b", code), f"{stage}: {name}"
