"""A long table, one rating a row: CSV, TSV or Parquet; also with crowd-kit's names."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO

from pipeline.delimited import first_record
from pipeline.errors import AssayError
from pipeline.formulas import original
from pipeline.ingest.sheets import File, Row, Sheet
from pipeline.ingest.text import DelimitedRows, plain_text, require_distinct
from pipeline.rating.export import COLUMNS as OF_THE_PAGE

WORKER = ("worker", "worker_id", "rater")
RATING = ("rating", "label")
RATED = ("input_id", "image_id", "task", "task_id")
TASK = "\0task"
# Our name of a cell: the file's, the first that is there.
CELLS = {
    "WorkerId": WORKER,
    "Answer.image0.on": RATING,
    "Input.input_id0": ("input_id",),
    "Input.image_id0": ("image_id",),
    "Input.description": ("description",),
    "AssignmentId": ("assignment", "assignment_id"),
    "AssignmentStatus": ("status",),
    "SubmitTime": ("submitted",),
    "WorkTimeInSeconds": ("seconds",),
}


def fits(columns: Sequence[str]) -> bool:
    """Say whether a header has a worker, a rating, and what is rated."""
    lower = {name.strip().lower() for name in columns}
    return all(lower.intersection(names) for names in (WORKER, RATING, RATED))


def read(file: File, text: str, delimiter: str) -> Sheet:
    """Return the rows of a CSV or TSV."""
    columns = [name.lower() for name in first_record(text, delimiter)]
    rows = DelimitedRows(file.source, text, delimiter, tuple(columns))
    kind = "TSV" if delimiter == "\t" else "CSV"
    return _sheet(file, kind, columns, rows, neutralised=set(columns) == set(OF_THE_PAGE))


def read_parquet(file: File) -> Sheet:
    """Return the rows of a Parquet file, numbered from 1; AssayError where it cannot be read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(BytesIO(file.data), page_checksum_verification=True)
        columns = [str(name).strip().lower() for name in table.column_names]
        values = [[plain_text(value) for value in column.to_pylist()] for column in table.columns]
    except (pa.ArrowException, OSError, ValueError, TypeError, OverflowError) as error:
        raise AssayError(f"{file.source}: a Parquet file that cannot be read ({error})") from None
    if not fits(columns):
        raise AssayError(
            f"{file.source}: a Parquet file with the columns {', '.join(columns)}; a table of ratings has "
            "worker, input_id and rating"
        )
    records = enumerate(zip(*values, strict=True), 1)
    rows = [Row(number, dict(zip(columns, record, strict=True))) for number, record in records]
    return _sheet(file, "Parquet", columns, rows)


@dataclass(frozen=True)
class _Renamed:
    """Rows with our names of the cells; `neutralised` texts are given back as they were."""

    rows: DelimitedRows | list[Row]
    names: dict[str, str]
    neutralised: bool

    def __iter__(self) -> Iterator[Row]:
        for row in self.rows:
            cells = {ours: row.cells.get(theirs, "") for ours, theirs in self.names.items()}
            if self.neutralised:
                cells = {name: original(text) for name, text in cells.items()}
            yield Row(row.number, cells, row.fault)


def _sheet(
    file: File,
    kind: str,
    columns: list[str],
    rows: DelimitedRows | list[Row],
    neutralised: bool = False,
) -> Sheet:
    require_distinct(columns, file.source)
    names = {
        ours: next(name for name in theirs if name in columns)
        for ours, theirs in CELLS.items()
        if not set(theirs).isdisjoint(columns)
    }
    # In crowd-kit's tables `task` is what is rated; beside an input it is the task that held it.
    task = next((name for name in ("task", "task_id") if name in columns), None)
    if task is not None:
        named = "Input.input_id0" in names or "Input.image_id0" in names
        names[TASK if named else "Input.input_id0"] = task
    return Sheet(f"long table, {kind}", frozenset(names), _Renamed(rows, names, neutralised), single=True)
