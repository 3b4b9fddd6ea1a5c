"""TSV files with images in base64, as VLMEvalKit publishes benchmarks: listed once, images read by place."""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import AssayError
from pipeline.vqa.cells import TsvImage, cells_of_any_length
from pipeline.vqa.tables import Row, require_columns, some

LONGEST_REFERENCE = 64


@dataclass(frozen=True)
class Record:
    """A record: the line on which it starts, from 1, its bytes in the file, and its cells."""

    line: int
    offset: int
    length: int
    cells: list[str]


def tsv_rows(
    root: Path, path: Path, columns: Sequence[str], *, image: str = "image", key: str = "index"
) -> list[Row]:
    """Return the rows of a UTF-8 file with a header, tabs, and quotes as in CSV.

    `columns` holds `key` and not `image`. An image cell of at most 64 characters that is the key of another
    row stands for that row's image. Raises AssayError naming file and line for a missing or doubled column, a
    row of another length, a quote that is not closed, another encoding, and a file without rows.
    """
    found = _records(path)
    header = next(found, None)
    names = [name.strip() for name in header.cells] if header else []
    _check_header(path, names, (*columns, image))
    place, folders = names.index(image), (path.parent, root)
    rows: list[Row] = []
    references: list[str] = []
    for record in found:
        _check_length(path, record, len(names))
        cell = record.cells[place].strip()
        references.append(cell if len(cell) <= LONGEST_REFERENCE else "")
        named = {name: record.cells[names.index(name)] for name in columns}
        source = TsvImage(path, record.line, record.offset, record.length, place, image, folders)
        rows.append(Row(f"{path}, line {record.line}", named, source))
    return some(path, _resolved(rows, references, key))


def _resolved(rows: list[Row], references: list[str], key: str) -> list[Row]:
    sources = {
        row.values[key].strip(): row.image
        for row, reference in zip(rows, references, strict=True)
        if not reference
    }
    return [
        Row(row.place, row.values, sources.get(reference, row.image))
        for row, reference in zip(rows, references, strict=True)
    ]


def _records(path: Path) -> Iterator[Record]:
    lines = _Lines(path)
    with cells_of_any_length():
        reader = csv.reader(lines, delimiter="\t", strict=True)
        line, offset = 1, 0
        try:
            for cells in reader:
                if any(map(str.strip, cells)):
                    yield Record(line, offset, lines.n_bytes - offset, cells)
                line, offset = lines.n_lines + 1, lines.n_bytes
        except csv.Error as error:
            raise AssayError(
                f"{path}, line {line}: the row that starts here cannot be read: {error}"
            ) from error


class _Lines:
    """The lines of a file in UTF-8, and how many lines and bytes of it were taken."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.n_lines = 0
        self.n_bytes = 0

    def __iter__(self) -> Iterator[str]:
        with self._path.open("rb") as stream:
            for data in stream:
                self.n_lines += 1
                self.n_bytes += len(data)
                yield self._text(data)

    def _text(self, data: bytes) -> str:
        try:
            return data.decode("utf-8-sig" if self.n_lines == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise AssayError(f"{self._path}, line {self.n_lines}: {error}; save the file in UTF-8") from error


def _check_header(path: Path, names: list[str], needed: Sequence[str]) -> None:
    if not names:
        raise AssayError(f"{path} is empty; its first line must name the columns {', '.join(needed)}")
    if doubled := sorted({name for name in names if names.count(name) > 1}):
        raise AssayError(f"{path}, line 1: two columns are named {doubled[0]!r}; rename one")
    require_columns(f"{path}, line 1", names, needed)


def _check_length(path: Path, record: Record, n_columns: int) -> None:
    if len(record.cells) != n_columns:
        raise AssayError(
            f"{path}, line {record.line}: {len(record.cells)} cells for {n_columns} columns; put quotes "
            "around a text that holds a tab or a line end"
        )
