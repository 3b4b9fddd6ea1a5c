"""Delimited text as people save it: records by the line on which each starts, and the first record."""

import csv
import io
from collections.abc import Iterator

from pipeline.errors import AssayError

DELIMITERS = (",", "\t", ";")


def records(
    text: str, delimiter: str, source: str, advice: str, *, skip_initial_space: bool = False
) -> Iterator[tuple[int, list[str]]]:
    """Yield each record that has a text, with the line (from 1) on which it starts; any line end.

    Cells are as they stand. Raises AssayError, with the line, for a quote that is not closed or that text
    follows; `advice` ends the message.
    """
    reader = csv.reader(
        io.StringIO(text, newline=""), delimiter=delimiter, strict=True, skipinitialspace=skip_initial_space
    )
    line = 1
    try:
        for record in reader:
            if any(record) and any(map(str.strip, record)):
                yield line, record
            line = reader.line_num + 1
    except csv.Error as error:
        raise AssayError(
            f"{source}, line {line}: the row that starts here cannot be read ({error}); {advice}"
        ) from None


def first_record(text: str, delimiter: str, *, skip_initial_space: bool = False) -> list[str]:
    """Return the cells of the first record that is not blank, stripped; [] where there is none."""
    reader = csv.reader(
        io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=skip_initial_space
    )
    try:
        stripped = ([cell.strip() for cell in record] for record in reader)
        return next((record for record in stripped if any(record)), [])
    except csv.Error:
        return []
