"""Files in, ratings and rejections out: every row of every file is in one of them."""

import fcntl
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from pipeline.errors import AssayError
from pipeline.files import replacing
from pipeline.ingest.detecting import read_sheet
from pipeline.ingest.joining import Index, Reading, index, known_input, readings
from pipeline.ingest.settling import settle
from pipeline.ingest.sheets import File
from pipeline.ingest.summary import Counts, FileFacts, summary
from pipeline.ingest.workers import WorkerFacts, worker_facts
from pipeline.mturk.state import read_hits
from pipeline.study.asked import Asked
from pipeline.study.frozen import FrozenStudy, study_in

KEPT_NAME = re.compile(r"([0-9a-f]{12})-(.+)", re.S)
LONGEST_NAME = 100
NOTHING_USED = "\nno rating can be used: there is no ratings.parquet, and crowd=files waits for one\n"


@dataclass(frozen=True)
class Ingested:
    """What came of all files together.

    ratings has the columns worker, assignment, image_id, description, rating (bool), status, source,
    row, task ("" where not known), seconds (of the whole assignment, NaN where not known), submitted
    (UTC), by description, image_id and worker. rejected has file, row, slot (<NA>: the whole row),
    worker, assignment, image_id, description, reason. `summary` is the page for people.
    """

    ratings: pd.DataFrame
    rejected: pd.DataFrame
    files: tuple[FileFacts, ...]
    counts: Counts
    workers: tuple[WorkerFacts, ...]
    summary: str
    notes: tuple[str, ...] = ()


def ingest(
    paths: Sequence[Path], asked: Asked, *, n_raters: int, keep_hit_ids: Mapping[str, str] | None = None
) -> Ingested:
    """Return the ratings in files of any known format.

    keep_hit_ids: HITId to task id, for rows without Input columns. The order of files, rows and
    columns does not matter. Raises AssayError for a file that cannot be read.
    """
    files = [_read(path) for path in paths]
    result = _ingested(_named(files), asked, n_raters, keep_hit_ids or {})
    notes = () if len(result.files) == len(files) else ("files with the same bytes are read once",)
    return replace(result, notes=notes)


def ingest_into(folder: Path, paths: Sequence[Path]) -> Ingested:
    """Keep new files in `<study>/ingested/` and rebuild its ratings from all files there.

    Writes ratings.parquet, rejected.parquet and summary.txt; without any rating there is no
    ratings.parquet, for which others wait, and one that was there goes. A file with the same bytes as
    one that is there is noted and not kept twice. Raises AssayError, before anything is written, for a
    file that cannot be read, and where there is no file at all.
    """
    study = study_in(folder)
    with _locked(folder / ".ingest.lock"):
        kept = [_kept(path) for path in _listed(folder / "ingested")]
        known = {_digest(file.data) for file in kept}
        given = {_digest(file.data): file for file in map(_read, paths)}
        new = {digest: file for digest, file in given.items() if digest not in known}
        if not kept and not new:
            raise AssayError(f"{folder / 'ingested'} holds no file; name the files that hold the ratings")
        result = _ingested(_named([*kept, *new.values()]), study.asked, study.settings.n_raters, _hits(study))
        for digest, file in new.items():
            with replacing(folder / "ingested" / f"{digest[:12]}-{file.source}") as temporary:
                temporary.write_bytes(file.data)
        if result.ratings.empty:
            result = replace(result, summary=result.summary + NOTHING_USED)
        _write(folder, result)
    notes = (f"{given[d].source}: already ingested, not kept twice" for d in given if d in known)
    return replace(result, notes=tuple(notes))


def _ingested(files: Sequence[File], asked: Asked, n_raters: int, hits: Mapping[str, str]) -> Ingested:
    study = index(asked, hits)
    facts, found, n_rows = [], list[Reading](), 0
    for file in files:
        sheet = read_sheet(file)
        n_before = n_rows
        for of_row in readings(file.source, sheet, study):
            n_rows += 1
            found += of_row
        facts.append(FileFacts(file.source, sheet.format, n_rows - n_before, sheet.notes))
    reasons = settle(found, asked)
    ratings, rejected = _ratings(found, reasons, study), _rejected(found, reasons, study)
    counts = _counts(n_rows, len(found), ratings, rejected)
    workers = worker_facts(found, reasons, asked)
    n_asked = sum(given.answer is None for given in asked.inputs.values())
    page = summary(facts, counts, ratings, rejected, workers, n_asked=n_asked, n_raters=n_raters)
    return Ingested(ratings, rejected, tuple(facts), counts, tuple(workers), page)


def _counts(n_rows: int, n_read: int, ratings: pd.DataFrame, rejected: pd.DataFrame) -> Counts:
    """Return the counts; AssertionError where a row or a rating is in neither table, or in both."""
    used = set(zip(ratings["source"].tolist(), ratings["row"].tolist(), strict=True))
    whole = set(zip(rejected["file"].tolist(), rejected["row"].tolist(), strict=True)) - used
    if n_rows != len(used) + len(whole):
        raise AssertionError(f"{n_rows} rows in, {len(used)} used and {len(whole)} rejected")
    if n_read != len(ratings) + len(rejected):
        raise AssertionError(f"{n_read} ratings read, {len(ratings)} used and {len(rejected)} rejected")
    return Counts(n_rows, len(used), n_read, len(ratings))


def _ratings(found: Sequence[Reading], reasons: Sequence[str], study: Index) -> pd.DataFrame:
    used = [(known_input(r, study.asked), r) for r, reason in zip(found, reasons, strict=True) if not reason]
    used.sort(key=lambda pair: (pair[0].description, pair[0].image_id, pair[1].copy.worker))
    copies = [reading.copy for _, reading in used]
    return pd.DataFrame(
        {
            "worker": _texts(copy.worker for copy in copies),
            "assignment": _texts(copy.assignment for copy in copies),
            "image_id": _texts(given.image_id for given, _ in used),
            "description": _texts(given.description for given, _ in used),
            "rating": pd.Series([reading.vote for _, reading in used], dtype="bool"),
            "status": _texts(copy.status for copy in copies),
            "source": _texts(copy.source for copy in copies),
            "row": pd.Series([copy.row for copy in copies], dtype="int64"),
            "task": _texts(copy.task for copy in copies),
            "seconds": pd.Series([copy.seconds for copy in copies], dtype="float64"),
            "submitted": pd.Series([copy.submitted for copy in copies], dtype="datetime64[us, UTC]"),
        }
    )


def _rejected(found: Sequence[Reading], reasons: Sequence[str], study: Index) -> pd.DataFrame:
    out = [(r, reason) for r, reason in zip(found, reasons, strict=True) if reason]
    out.sort(key=lambda pair: (pair[0].copy.source, pair[0].copy.row, pair[0].slot or 0))
    inputs = [known_input(reading, study.asked) for reading, _ in out]
    return pd.DataFrame(
        {
            "file": _texts(reading.copy.source for reading, _ in out),
            "row": pd.Series([reading.copy.row for reading, _ in out], dtype="int64"),
            "slot": pd.Series([reading.slot for reading, _ in out], dtype="Int64"),
            "worker": _texts(reading.copy.worker for reading, _ in out),
            "assignment": _texts(reading.copy.assignment for reading, _ in out),
            "image_id": _texts(given.image_id for given in inputs),
            "description": _texts(given.description for given in inputs),
            "reason": _texts(reason for _, reason in out),
        }
    )


def _texts(values: Iterator[str]) -> "pd.Series[str]":
    return pd.Series(list(values), dtype="str")


def _named(files: Sequence[File]) -> list[File]:
    """Return distinct files by name; the digest goes before a name that two files have."""
    distinct = {_digest(file.data): file for file in sorted(files, key=lambda file: file.source)}
    names = [file.source for file in distinct.values()]
    named = [
        file if names.count(file.source) == 1 else File(f"{digest[:12]}-{file.source}", file.data)
        for digest, file in distinct.items()
    ]
    return sorted(named, key=lambda file: file.source)


def _read(path: Path) -> File:
    name = path.name.encode("utf-8", "backslashreplace")[-LONGEST_NAME:].decode("utf-8", "ignore")
    try:
        return File(name, path.read_bytes())
    except OSError as error:
        raise AssayError(f"{path}: {error.strerror}; name a file that holds ratings") from None


def _kept(path: Path) -> File:
    """Return a file of ingested/ under the name it came with; AssayError where it was changed since."""
    file, match = _read(path), KEPT_NAME.fullmatch(path.name)
    if match is None:
        return file
    if not _digest(file.data).startswith(match[1]):
        raise AssayError(
            f"{path} was changed after it was ingested; restore it, or delete it and ingest the right file"
        )
    return File(match[2], file.data)


def _listed(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.glob("*")) if path.is_file() and not path.name.startswith(".")]


def _hits(study: FrozenStudy) -> dict[str, str]:
    """Return HITId to task id, of the sandbox and of production."""
    places = [read_hits(study, place) for place in ("sandbox", "production")]
    return {hit.hit_id: task for hits in places for task, hit in hits.items()}


def _write(folder: Path, result: Ingested) -> None:
    for name, table in (("rejected", result.rejected), ("ratings", result.ratings)):
        if name == "ratings" and table.empty:
            (folder / "ratings.parquet").unlink(missing_ok=True)
            continue
        with replacing(folder / f"{name}.parquet") as temporary:
            table.to_parquet(temporary, index=False)
    with replacing(folder / "summary.txt") as temporary:
        temporary.write_text(result.summary, encoding="utf-8")


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Let one process at a time in; the system drops the lock when a process dies."""
    with path.open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield
