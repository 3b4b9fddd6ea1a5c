"""Text files of `<number> <value>` lines, as CUB-200-2011 has them."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from pipeline.errors import AssayError


def numbered_names(path: Path) -> dict[int, str]:
    """Return the names of a file by their numbers, in the order of the file.

    Raises AssayError, naming file and line: no such file, a line that is no number and name, a number
    or a name that stands twice.
    """
    names: dict[int, str] = {}
    lines: dict[str, int] = {}
    for line, number, name in _lines(path):
        if number in names or name in lines:
            raise AssayError(f"{path}, line {line}: {number} or {name!r} stands there twice; remove one")
        names[number], lines[name] = name, line
    return names


def numbered_values(path: Path, names: Mapping[int, str], values: Mapping[int, str]) -> dict[str, str]:
    """Return what a file of `<number> <value number>` lines says of every name.

    Raises AssayError, naming file and line, for a number or value that is not known, one that stands
    twice, and a name of which no line tells.
    """
    told: dict[str, str] = {}
    for line, number, value in _lines(path):
        if number not in names or not value.isdecimal() or int(value) not in values:
            raise AssayError(
                f"{path}, line {line}: `{number} {value}` is not one of the {len(names)} numbers of "
                f"images.txt with a number from {min(values, default=0)} to {max(values, default=0)}"
            )
        if names[number] in told:
            raise AssayError(f"{path}, line {line}: {number} stands there twice; remove one")
        told[names[number]] = values[int(value)]
    if silent := [name for name in names.values() if name not in told]:
        raise AssayError(
            f"{path} says nothing of {len(silent)} of {len(names)} images; the first: {silent[0]}"
        )
    return told


def _lines(path: Path) -> Iterator[tuple[int, int, str]]:
    if not path.is_file():
        raise AssayError(f"dataset.root: no file {path}")
    for line, text in enumerate(path.read_text(encoding="utf-8-sig").splitlines(), 1):
        number, _, value = text.strip().partition(" ")
        if not number and not value:
            continue
        if not number.isdecimal() or not value.strip():
            raise AssayError(f"{path}, line {line}: {text!r} is not `<number> <value>`")
        yield line, int(number), value.strip()
