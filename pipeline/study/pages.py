"""The pages that raters see on MTurk, Turkle and Label Studio, made from one template each."""

import html
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Template

TEMPLATES = Path(__file__).parent / "templates"
PAGES = ("task.html", "task_plain.html", "label_studio.xml")
ESCAPED = frozenset({"description_html"})
PLACEHOLDER = re.compile(r"\$\{(\w+)\}")


def page(name: str, n_slots: int) -> str:
    """Return a page with `n_slots` places for images; `${...}` are left for the platform to fill."""
    return _template(name).render(slots=range(n_slots))


def fill(page: str, row: Mapping[str, str]) -> str:
    """Put a task's cells where the page says ${name}, escaped for HTML.

    `description_html` is escaped already. Raises KeyError for a name that the row lacks.
    """

    def cell(match: re.Match[str]) -> str:
        value = row[match[1]]
        return value if match[1] in ESCAPED else html.escape(value)

    return PLACEHOLDER.sub(cell, page)


@cache
def _template(name: str) -> "Template":
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    # The pages hold no value of a study when they are made, so there is nothing to escape here.
    environment = Environment(loader=FileSystemLoader(TEMPLATES), undefined=StrictUndefined, autoescape=False)
    return environment.get_template(f"{name}.jinja")
