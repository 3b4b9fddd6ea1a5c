"""Results of another project under the column names that `ingest` knows."""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from pipeline.delimited import DELIMITERS, first_record
from pipeline.errors import AssayError
from pipeline.ingest.sheets import File
from pipeline.ingest.text import decode


def with_standard_names(
    results: Sequence[Path], columns: Mapping[str, str], answer: str, folder: Path
) -> list[Path]:
    """Return results files whose headers have the standard names.

    columns: the tasks' own column names and the standard ones; answer: the name of slot j's
    checkbox, such as `image{j}`. A delimited file with such a header is written anew into `folder`,
    under its own name and with every row on its line; all other files are returned as they are.
    """
    found = []
    for number, path in enumerate(results):
        if (text := renamed(_text(path), columns, answer)) is not None:
            path = folder / str(number) / path.name
            path.parent.mkdir(parents=True)
            path.write_bytes(text.encode("utf-8"))
        found.append(path)
    return found


def renamed(text: str, columns: Mapping[str, str], answer: str) -> str | None:
    """Return a delimited text under the standard names, None where there is nothing to rename."""
    delimiter = max(DELIMITERS, key=lambda one: len(first_record(text, one)))
    header = first_record(text, delimiter)
    names = [_standard(name, columns, answer) for name in header]
    if names == header:
        return None
    stream = io.StringIO(text, newline="")
    reader = csv.reader(stream, delimiter=delimiter)
    next(record for record in reader if any(record))
    line = io.StringIO()
    csv.writer(line, delimiter=delimiter, lineterminator="\n").writerow(names)
    new = line.getvalue()
    return "\n" * (reader.line_num - new.count("\n")) + new + stream.read()


def _text(path: Path) -> str:
    """Return a text file's text, "" for any other: `ingest` says what is wrong with it."""
    try:
        return decode(File(path.name, path.read_bytes()))
    except (AssayError, OSError):
        return ""


def _standard(name: str, columns: Mapping[str, str], answer: str) -> str:
    kind, _, own = name.partition(".")
    if kind == "Input":
        return f"Input.{columns.get(own, own)}"
    before, after = map(re.escape, answer.split("{j}"))
    if kind == "Answer" and (match := re.fullmatch(f"{before}([0-9]+){after}((?:\\.on)?)", own)):
        return f"Answer.image{int(match[1])}{match[2]}"
    return name
