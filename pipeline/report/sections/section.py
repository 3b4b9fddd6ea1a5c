"""The parts of a report's section, as the template shows them."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from pipeline.report.vlm_sheets import Sheet


@dataclass(frozen=True)
class Column:
    """A column of a table; numeric ones stand to the right."""

    title: str
    numeric: bool


@dataclass(frozen=True)
class Cell:
    """What a cell shows, and by what it is sorted: a number in full precision, or "" for its text.

    keys: of results, shown so that they can be copied.
    """

    text: str
    value: str = ""
    keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class DataTable:
    """A table that can be sorted and saved.

    csv: a data URI of all its rows and columns, or "" where that is too large. n_rows: of which the first
    ones are shown. source: the key of the result that it is from. words: what its columns are.
    """

    kind: ClassVar[str] = "table"
    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    n_rows: int
    csv: str
    source: str
    words: tuple[str, ...] = ()
    folded: bool = False


@dataclass(frozen=True)
class Chart:
    """A chart: a specification for scripts (JSON), and the same drawn (SVG); label: for who sees neither."""

    kind: ClassVar[str] = "chart"
    name: str
    title: str
    spec: str
    svg: str
    label: str
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class Picture:
    """A figure of the comparison as a data URI."""

    kind: ClassVar[str] = "picture"
    name: str
    title: str
    data: str


@dataclass(frozen=True)
class Shot:
    """An image of a unit: a data URI, and its activation in words."""

    image_id: str
    data: str
    activation: str


@dataclass(frozen=True)
class Opinion:
    """What a method says of a unit, with its score in words; first: it has the unit's highest score."""

    method: str
    description: str
    score: str
    remarks: str
    first: bool


@dataclass(frozen=True)
class Unit:
    """A unit: where it is, its images by kind, and the methods' texts."""

    title: str
    groups: tuple[tuple[str, tuple[Shot, ...]], ...]
    opinions: tuple[Opinion, ...]


@dataclass(frozen=True)
class Gallery:
    """Units with their images and texts."""

    kind: ClassVar[str] = "gallery"
    units: tuple[Unit, ...]


@dataclass(frozen=True)
class Samples:
    """Sheets of samples of vision-language models."""

    kind: ClassVar[str] = "samples"
    sheets: tuple[Sheet, ...]


@dataclass(frozen=True)
class Setting:
    """A key of the config with a value; varies: not all points have this value."""

    key: str
    value: str
    varies: bool


@dataclass(frozen=True)
class SetPoint:
    """A point of the sweep with everything that made it."""

    title: str
    overrides: str
    keys: tuple[tuple[str, str], ...]
    settings: tuple[Setting, ...]


@dataclass(frozen=True)
class Settings:
    """The points, and what all of them share."""

    kind: ClassVar[str] = "settings"
    shared: tuple[Setting, ...]
    points: tuple[SetPoint, ...]


Block = DataTable | Chart | Picture | Gallery | Samples | Settings


@dataclass(frozen=True)
class Section:
    """A heading with paragraphs and blocks; anchor: its id on the page."""

    anchor: str
    title: str
    words: tuple[str, ...] = ()
    blocks: Sequence[Block] = ()


def pictures(figures: Mapping[str, Path], titles: Mapping[str, str], *names: str) -> list[Picture]:
    """Return the figures (SVG) of those names that the comparison has."""
    return [_picture(name, titles[name], figures[name]) for name in names if name in figures]


def _picture(name: str, title: str, path: Path) -> Picture:
    data = base64.b64encode(path.read_bytes()).decode("ascii")
    return Picture(name, title, f"data:image/svg+xml;base64,{data}")
