"""Images and lists of numbers that a table of pairs names."""

import re
from pathlib import Path

from pipeline.datasets.manifest import Found
from pipeline.datasets.rows import Row
from pipeline.errors import AssayError
from pipeline.pairs.pair_set import MISSING, Problem

NUMBERS = re.compile(r"[\[(]?\s*(?:-?\d+(?:\s*[,;\s]\s*-?\d+)*)?\s*,?\s*[\])]?")


def existing_folder(root: Path) -> Path:
    """Return `root` as an absolute path; AssayError if it is no folder."""
    absolute = Path(root).absolute()
    if not absolute.is_dir():
        raise AssayError(f"pairs.root={root}: there is no folder {absolute}")
    return absolute


def image_at(root: Path, sheet: Path, row: Row, column: str) -> Found:
    """Return the image that a cell names by its path from the root.

    Its id is that path. Raises AssayError, naming file and line, for a blank cell and a path that
    leads out of the root.
    """
    name = row.values[column]
    file = root / name
    if not name or not file.resolve().is_relative_to(root.resolve()):
        raise AssayError(
            f"{sheet}, line {row.line}, column {column!r}: {name!r} is no path of an image below {root}"
        )
    path = Path(name).as_posix()
    return Found(path, "root", path, f"{sheet.name}, line {row.line}, {path}", file.read_bytes)


def missing(root: Path, place: str, *images: Found) -> Problem | None:
    """Return the problem of the first image that is not on disk."""
    absent = next((image.path for image in images if not (root / image.path).is_file()), None)
    return None if absent is None else Problem(MISSING, f"{place}: {absent}")


def numbers_in(sheet: Path, row: Row, column: str) -> list[int]:
    """Return the whole numbers of a cell such as "[3, 14]"; AssayError naming the cell otherwise."""
    text = row.values[column]
    if not NUMBERS.fullmatch(text):
        raise AssayError(
            f"{sheet}, line {row.line}, column {column!r}: {text!r} is no list of whole numbers, "
            "such as [3, 14]"
        )
    return [int(number) for number in re.findall(r"-?\d+", text)]


def number_in(sheet: Path, row: Row, column: str) -> int:
    """Return the whole number of a cell; AssayError naming the cell otherwise."""
    numbers = numbers_in(sheet, row, column)
    if len(numbers) != 1:
        raise AssayError(
            f"{sheet}, line {row.line}, column {column!r}: {row.values[column]!r} is not one whole number"
        )
    return numbers[0]
