"""The documents say what the code does."""

import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_example_prints_what_it_says(page: Path) -> None:
    text = re.sub(r"^```.*$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    examples = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    assert doctest.DocTestRunner().run(examples).failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_and_picture_is_there(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_shipped_sweep_that_is_named_is_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = set(re.findall(r"sweep=([a-z_]+)\b(?!: no file)", text))
    shipped = {path.stem for path in (ROOT / "conf" / "sweep").glob("*.yaml")}
    assert named <= shipped | shown_sweeps()


def shown_sweeps() -> set[str]:
    """Return the sweeps whose files a page shows."""
    texts = (page.read_text(encoding="utf-8") for page in PAGES)
    return {name for text in texts for name in re.findall(r"^# conf/sweep/([a-z_]+)\.yaml$", text, re.M)}
