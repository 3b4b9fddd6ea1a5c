"""Add columns to the pairs.csv of a data set, and leave the rest of it as it is."""

import csv
from collections.abc import Mapping
from pathlib import Path

from pipeline.datasets.rows import Sheet, read_sheet
from pipeline.files import replacing
from pipeline.pairs.edited import COLUMNS, SHEET


def read_pairs(root: Path) -> Sheet:
    """Read `root`/pairs.csv; AssayError naming file and line where it is not one."""
    return read_sheet(root / SHEET, COLUMNS)


def write_columns(root: Path, columns: Mapping[str, Mapping[str, str]]) -> None:
    """Set columns of `root`/pairs.csv, by pair_id; a pair that a column does not tell of is blank there."""
    sheet = read_pairs(root)
    header = [*sheet.columns, *(name for name in columns if name not in sheet.columns)]
    with replacing(root / SHEET) as temporary, temporary.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, header, lineterminator="\n")
        writer.writeheader()
        for row in sheet.rows:
            new = {name: cells.get(row.values["pair_id"], "") for name, cells in columns.items()}
            writer.writerow({**row.values, **new})
