"""points.csv: one row a point, its factors its key in every stage; for people, and for later commands."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pipeline.files import replacing
from pipeline.formulas import neutralised, original

POINTS = "points.csv"


def write_points(path: Path, rows: Sequence[Mapping[str, str]]) -> None:
    """Write the table; cells that a spreadsheet would run are neutralised."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    with replacing(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, columns, restval="")
        writer.writeheader()
        writer.writerows({name: neutralised(str(value)) for name, value in row.items()} for row in rows)


def read_points(path: Path) -> Iterator[dict[str, str]]:
    """Yield the rows with the texts that `write_points` was given."""
    with path.open(newline="", encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            yield {name: original(value or "") for name, value in row.items()}
