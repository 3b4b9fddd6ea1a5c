"""The page's ratings as a long table that `assay ingest` reads."""

import csv
import hashlib
import sqlite3
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

from pipeline.files import replacing
from pipeline.formulas import neutralised
from pipeline.rating.counts import PREFIX
from pipeline.rating.store import STORE as STORE
from pipeline.rating.store import reading
from pipeline.study.asked import Input
from pipeline.study.frozen import read_text_table

COLUMNS = (
    "worker", "assignment", "task", "input_id", "image_id", "description",
    "rating", "status", "submitted", "seconds",
)  # fmt: skip
PIECE = 1000
ANSWERS = """SELECT label, assignments.id, input, rating, submitted, seconds
    FROM answers
    JOIN assignment_inputs USING (assignment, input)
    JOIN assignments ON assignments.id = assignment
    JOIN raters ON raters.id = assignments.rater
    ORDER BY submitted, assignments.id, slot"""


def export_ratings(folder: Path, target: Path) -> int:
    """Write the ratings in force of the study in `folder` to a CSV, and return how many there are.

    A row a rating: worker (the rater's label, and what tells this page from another), assignment ("page-"
    and its id), task (blank), input_id, image_id, description, rating (yes or no), status, submitted
    (ISO, UTC), seconds (of the whole assignment, or blank). People open it in spreadsheets, so texts are
    neutralised; `assay ingest` takes that back. Raises AssayError where nobody rated on the page yet, or
    inputs.csv was edited.
    """
    n_ratings = 0
    with replacing(target) as temporary, temporary.open("w", encoding="utf-8", newline="") as stream:
        for text, n_rows in csv_pieces(folder):
            stream.write(text)
            n_ratings += n_rows
    return n_ratings


def csv_pieces(folder: Path) -> Iterator[tuple[str, int]]:
    """Yield the CSV of `export_ratings` piece by piece, each with the number of ratings in it."""
    inputs = _inputs(folder)
    yield _text([COLUMNS]), 0
    with reading(folder) as connection:
        page = page_name(connection)
        answers = connection.execute(ANSWERS)
        while rows := answers.fetchmany(PIECE):
            yield _text([_cells((f"{row[0]}@{page}", *row[1:]), inputs[row[2]]) for row in rows]), len(rows)


def page_name(connection: sqlite3.Connection) -> str:
    """Return 6 hex digits that tell this page's raters from those of any other page."""
    owner = connection.execute("SELECT value FROM meta WHERE name = 'owner'").fetchone()[0]
    return hashlib.sha256(str(owner).encode()).hexdigest()[:6]


def n_stored(connection: sqlite3.Connection) -> int:
    """Return how many ratings are in force."""
    return int(connection.execute("SELECT count(*) FROM answers").fetchone()[0])


def utc(seconds: float) -> str:
    """Return seconds since 1970 as an ISO time with a Z."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _inputs(folder: Path) -> dict[str, Input]:
    table = read_text_table(folder / "inputs.csv")
    rows = zip(table["input_id"], table["image_id"], table["description"], strict=True)
    return {input_id: Input(image_id, description) for input_id, image_id, description in rows}


def _cells(row: tuple[Any, ...], asked: Input) -> tuple[object, ...]:
    label, assignment, input_id, rating, submitted, seconds = row
    return (
        neutralised(label), PREFIX + assignment, "", input_id, neutralised(asked.image_id),
        neutralised(asked.description), "yes" if rating else "no", "Submitted", utc(submitted),
        "" if seconds is None else round(seconds, 3),
    )  # fmt: skip


def _text(rows: Sequence[Sequence[object]]) -> str:
    stream = StringIO()
    csv.writer(stream).writerows(rows)
    return stream.getvalue()
