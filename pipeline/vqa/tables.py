"""Rows of the Parquet and JSON files that benchmarks are published as, and samples made of rows."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from PIL import Image

from pipeline.datasets.nearest import did_you_mean
from pipeline.datasets.parquet_rows import opened, values
from pipeline.errors import AssayError
from pipeline.vqa.cells import ParquetImage
from pipeline.vqa.sample import VqaSample

T = TypeVar("T")


@dataclass(frozen=True)
class Row:
    """One row: where it stands ("<file>, row 3"), its values by column, and its image."""

    place: str
    values: Mapping[str, Any]
    image: Callable[[], Image.Image]

    def text(self, column: str) -> str:
        """Return a value as text without outer space; a whole number is one. AssayError where it is none."""
        value = self.values.get(column)
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if value is None or value == "":
            raise self.refused(column, "is empty")
        if not isinstance(value, str) or not value.strip():
            raise self.refused(column, "is not a text")
        return value.strip()

    def one_of(self, column: str, known: Sequence[str]) -> str:
        """Return a text that is one of `known`; AssayError for another."""
        value = self.text(column)
        if value not in known:
            raise self.refused(column, f"is not one of {', '.join(known)}")
        return value

    def refused(self, column: str, reason: str) -> AssayError:
        """Return the error that names the row, the column and its value."""
        return AssayError(f"{self.place}, column {column!r}: {self.values.get(column)!r} {reason}")


def parquet_rows(root: Path, path: Path, columns: Sequence[str], image: str = "image") -> list[Row]:
    """Return the rows of a Parquet file with `columns`; the image column, not one of them, is not read.

    Raises AssayError naming the file for a missing column, no row, and what is no Parquet.
    """
    with opened(path) as file:
        require_columns(str(path), file.schema_arrow.names, (*columns, image))
    folders = (path.parent, root)
    return some(
        path,
        [
            Row(
                f"{path}, row {i}",
                dict(zip(columns, row, strict=True)),
                ParquetImage(path, i, image, folders),
            )
            for i, row in enumerate(values(path, columns))
        ],
    )


def json_lines(path: Path, columns: Sequence[str]) -> list[tuple[str, dict[str, Any]]]:
    """Return (place, object) of each line that is not blank.

    Raises AssayError naming file and line for what is not a JSON object or lacks a column, and a file
    without any.
    """
    found = []
    for line, data in enumerate(path.read_bytes().splitlines(), 1):
        if data.strip():
            place = f"{path}, line {line}"
            value = _object(place, data)
            require_columns(place, list(value), columns)
            found.append((place, value))
    return some(path, found)


def require_columns(place: str, names: Sequence[str], needed: Sequence[str]) -> None:
    """Raise AssayError naming the place and the first needed column that is not there."""
    for name in needed:
        if name not in names:
            raise AssayError(
                f"{place}: no column {name!r}{did_you_mean(name, names)}; the columns are {', '.join(names)}"
            )


def some(path: Path, rows: list[T]) -> list[T]:
    """Return the rows; AssayError naming the file where there are none."""
    if not rows:
        raise AssayError(f"{path} has no row; put the published file in its place")
    return rows


def unique(samples: Iterable[tuple[str, VqaSample]]) -> list[VqaSample]:
    """Return the samples of (place, sample); AssayError naming both places of an id that stands twice."""
    places: dict[str, str] = {}
    kept = []
    for place, sample in samples:
        if sample.sample_id in places:
            raise AssayError(
                f"sample {sample.sample_id!r} stands twice: {places[sample.sample_id]} and {place}; "
                "keep one row, or one of the files"
            )
        places[sample.sample_id] = place
        kept.append(sample)
    return kept


def asked(text: str, suffix: str) -> str:
    """Return the whole question: the published text, and the suffix on a line of its own."""
    return f"{text}\n{suffix}" if suffix else text


def _object(place: str, data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data.decode("utf-8-sig"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise AssayError(f"{place} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise AssayError(f"{place} is no JSON object; the file holds one object a line")
    return value
